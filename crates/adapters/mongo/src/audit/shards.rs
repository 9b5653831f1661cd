//! Reads the shards of a cluster past its mongos, and compares their documents with those that the mongos shows.

use bson::{Document, rawdoc};
use plimsoll_deployment::catch_up_quietly;
use plimsoll_ledger::Audit;
use plimsoll_ledger::audit::Placement;
use plimsoll_measure::integrity::Shards;
use plimsoll_wire::{Address, ConnectOptions, Connection};

use super::members::{self, Compared};
use super::{Error, Listener, Reader, connect, read, spec};

/// The most shards that are read.
const SHARDS_MAX: usize = 1024;

/// The primary of a shard.
pub(super) struct Shard {
    name: String,
    options: ConnectOptions,
    connection: Connection,
}

/// The findings on the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The documents on each shard.
    pub shards: Shards,
    /// The comparison with the mongos.
    pub placement: Placement,
    /// The members of the shards.
    pub(super) compared: Compared,
}

impl Placed {
    /// Adds the shards of another cluster.
    pub(super) fn extend(&mut self, other: Self) {
        self.shards.merge(&other.shards);
        self.placement.merge(other.placement);
    }
}

/// Connects to the primary of every shard behind a mongos. None without a mongos.
///
/// # Errors
/// A sentence that says why the shards are not read.
pub(super) async fn find(
    mongos: &mut Connection,
    options: &ConnectOptions,
    reader: &Reader<'_>,
) -> Result<Vec<Shard>, String> {
    if !mongos.hello().is_mongos || !reader.scope.compares_members() {
        return Ok(Vec::new());
    }
    let sentence =
        |error: Error| format!("The shards were not read past the mongos {}: {error}.", options.address);
    let mut shards = Vec::new();
    for (name, hosts) in list(mongos).await.map_err(sentence)? {
        shards.push(primary(name, &hosts, options).await.map_err(sentence)?);
    }
    Ok(shards)
}

/// The names of all shards, and the addresses of their members.
async fn list(mongos: &mut Connection) -> Result<Vec<(String, Vec<String>)>, Error> {
    let reply = mongos.command("admin", &rawdoc! {"listShards": 1}).await?;
    let reply = Document::try_from(reply.as_ref()).unwrap_or_default();
    let listed = reply.get_array("shards").map(Vec::as_slice).unwrap_or_default();
    let shards = listed.iter().filter_map(|shard| shard.as_document()).filter_map(described);
    Ok(shards.take(SHARDS_MAX).collect())
}

/// A shard such as `{_id: "s0", host: "set/a:1,b:1"}`.
fn described(shard: &Document) -> Option<(String, Vec<String>)> {
    let host = shard.get_str("host").ok()?;
    let members = host.split_once('/').map_or(host, |(_, members)| members);
    Some((shard.get_str("_id").ok()?.to_owned(), members.split(',').map(str::to_owned).collect()))
}

/// Connects to the primary of a shard.
async fn primary(name: String, hosts: &[String], options: &ConnectOptions) -> Result<Shard, Error> {
    let mut last = Error::NoPrimary(name.clone());
    for host in hosts {
        let address: Address = host.parse().map_err(|_| Error::Address(host.clone()))?;
        let options = ConnectOptions { address, ..options.clone() };
        match connect(&options).await {
            Ok(connection) if connection.hello().is_writable_primary => {
                return Ok(Shard { name, options, connection });
            }
            Ok(_) => {}
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Waits until a majority of every shard has the writes of its primary: the wait through a mongos reaches only the shards of its update.
pub(super) async fn catch_up(shards: &mut [Shard], reader: &Reader<'_>) -> Result<(), Error> {
    for shard in shards {
        let waited = catch_up_quietly(&mut shard.connection, reader.scope.lag_max).await;
        waited.map_err(|error| Error::Shard(shard.name.clone(), Box::new(error)))?;
    }
    Ok(())
}

/// Reads every shard and the members of its replica set, and compares them with `seen`, the scan through the mongos.
///
/// # Errors
/// A sentence that says why the shards are not compared.
pub(super) async fn compare<'a>(
    shards: Vec<Shard>,
    seen: &Audit<'a>,
    reader: &Reader<'a>,
    listener: &mut impl Listener,
) -> Result<Placed, String> {
    let (mut placed, mut audits) = (Placed::default(), Vec::new());
    for mut shard in shards {
        let spec = spec(&shard.connection, reader.scope.namespace);
        let (mut audit, mut reader) = (seen.afresh(), reader.afresh());
        read(&mut shard.connection, &spec, &mut audit, &mut reader, listener)
            .await
            .map_err(|error| format!("The shard {} could not be read to its end: {error}.", shard.name))?;
        let compared =
            members::compare(&mut shard.connection, &shard.options, &audit, &reader, listener).await;
        placed.compared.extend(compared);
        placed.shards.documents.insert(shard.name, audit.present());
        audits.push(audit);
    }
    if !audits.is_empty() {
        placed.placement = seen.placement(&audits);
        placed.shards.orphans = placed.placement.orphans;
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_shard_is_listed_with_the_members_of_its_set() {
        let check = |shard: Document, expected: Option<(&str, &[&str])>| {
            let expected = expected
                .map(|(name, hosts)| (name.to_owned(), hosts.iter().map(|it| (*it).to_owned()).collect()));
            assert_eq!(described(&shard), expected);
        };
        check(doc! {"_id": "s0", "host": "set/a:1,b:2", "state": 1}, Some(("s0", &["a:1", "b:2"])));
        check(doc! {"_id": "s1", "host": "a:1"}, Some(("s1", &["a:1"])));
        check(doc! {"_id": "s1"}, None);
    }
}
