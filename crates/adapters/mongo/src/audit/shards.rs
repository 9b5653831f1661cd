//! Reads the shards of a cluster past its mongos, and compares their documents with those that the mongos shows.

use std::fmt::Display;
use std::time::Duration;

use bson::{Document, rawdoc};
use plimsoll_deployment::{MajorityError, catch_up_quietly};
use plimsoll_ledger::Audit;
use plimsoll_ledger::audit::{EXAMPLES_MAX, Placement};
use plimsoll_measure::integrity::Shards;
use plimsoll_wire::{Address, ConnectOptions, Connection};

use super::members::{self, Compared};
use super::second_look::{Confirmed, ROUNDS, bounded, look_up};
use super::{BATCH_TIMEOUT, Error, Listener, Reader, connect, read};

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

/// The shards behind a mongos; none without one.
pub(super) struct Reached {
    shards: Vec<Shard>,
    /// Why further shards are not read, or not at majority, a sentence each.
    failed: Vec<String>,
}

/// Connects to the primary of every shard behind a mongos.
///
/// # Errors
/// A sentence that says why no shard is read: in many networks clients reach only the mongos.
pub(super) async fn find(
    mongos: &mut Connection,
    options: &ConnectOptions,
    reader: &Reader<'_>,
) -> Result<Reached, String> {
    let mut reached = Reached { shards: Vec::new(), failed: Vec::new() };
    if !mongos.hello().is_mongos || !reader.scope.compares_members() {
        return Ok(reached);
    }
    let sentence =
        |error: &Error| format!("The shards were not read past the mongos {}: {error}.", options.address);
    let mut first = None;
    for (name, hosts) in list(mongos).await.map_err(|error| sentence(&error))? {
        match primary(name.clone(), &hosts, options, reader).await {
            Ok(shard) => reached.shards.push(shard),
            Err(error) => {
                reached.failed.push(unread(&name, &error));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if reached.shards.is_empty() => Err(sentence(&error)),
        _ => Ok(reached),
    }
}

fn unread(name: &str, error: &impl Display) -> String {
    format!("The shard {name} was not read: {error}. Nothing is proven about its documents.")
}

fn behind(name: &str, error: &impl Display) -> String {
    format!(
        "The shard {name} lags, so the audit read it and the mongos at `local`, and a failover may still roll back documents \
         that were found: {error}."
    )
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
async fn primary(
    name: String,
    hosts: &[String],
    options: &ConnectOptions,
    reader: &Reader<'_>,
) -> Result<Shard, Error> {
    let mut last = Error::NoPrimary(name.clone());
    for host in hosts {
        let address: Address = host.parse().map_err(|_| Error::Address(host.clone()))?;
        let options = ConnectOptions { address, ..options.clone() };
        match connect(&members::hurried(&options, reader.scope.lag_max)).await {
            Ok(connection) if connection.hello().is_writable_primary => {
                return Ok(Shard { name, options, connection });
            }
            Ok(_) => {}
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

impl Reached {
    /// Waits until a majority of every shard has the writes of its primary. A wait through the mongos does
    /// not suffice: it sends an update, and covers only the shards that this update reaches. Returns the addresses of the shards that lag, which stay open.
    pub(super) async fn catch_up(&mut self, limit: Duration) -> Vec<Address> {
        let mut lagging = Vec::new();
        for mut shard in std::mem::take(&mut self.shards) {
            match shard.catch_up(limit).await {
                Ok(()) => {}
                Err(MajorityError::Wire(error)) => {
                    self.failed.push(unread(&shard.name, &error));
                    continue;
                }
                Err(error) => {
                    self.failed.push(behind(&shard.name, &error));
                    lagging.push(shard.options.address.clone());
                }
            }
            self.shards.push(shard);
        }
        lagging
    }

    /// Reads every shard and the members of its replica set, and compares them with `seen`, the scan through
    /// the mongos. The failure of one shard does not end the comparison of the others.
    pub(super) async fn compare<'a>(
        self,
        (mongos, options): (&mut Connection, &ConnectOptions),
        seen: &Audit<'a>,
        reader: &Reader<'a>,
        listener: &mut impl Listener,
    ) -> Placed {
        let (mut placed, mut audits) = (Placed::default(), Vec::new());
        placed.shards.open = self.failed;
        for mut shard in self.shards {
            match shard.read(&mut placed.compared, seen, reader, listener).await {
                Ok(audit) => {
                    placed.shards.documents.insert(shard.name, audit.present());
                    audits.push(audit);
                }
                Err(error) => placed.shards.open.push(unread(&shard.name, &error)),
            }
        }
        if !audits.is_empty() {
            placed.judge(&audits, seen);
            let found = placed.look_again((mongos, options), &audits, seen, reader).await;
            placed.shards.open.extend(found.err());
        }
        placed
    }
}

impl Shard {
    async fn catch_up(&mut self, limit: Duration) -> Result<(), MajorityError> {
        self.connection.set_timeout(Some(limit));
        let caught_up = catch_up_quietly(&mut self.connection, limit).await;
        self.connection.set_timeout(Some(BATCH_TIMEOUT));
        caught_up
    }

    /// Reads the shard, and adds the comparison of its members.
    async fn read<'a>(
        &mut self,
        compared: &mut Compared,
        seen: &Audit<'a>,
        reader: &Reader<'a>,
        listener: &mut impl Listener,
    ) -> Result<Audit<'a>, plimsoll_wire::Error> {
        let spec = reader.spec(&self.connection);
        let (mut audit, mut reader) = (seen.afresh(), reader.afresh());
        read(&mut self.connection, &spec, &mut audit, &mut reader, listener).await?;
        let members = members::compare(&mut self.connection, &self.options, &audit, &reader, listener).await;
        compared.extend(members);
        Ok(audit)
    }
}

impl Placed {
    fn judge(&mut self, audits: &[Audit<'_>], seen: &Audit<'_>) {
        self.placement = seen.placement(audits);
        self.shards.orphans = self.placement.orphans;
        // Documents that are on no shard need a second look.
        self.placement.unplaced = Default::default();
    }

    /// Rereads the documents that seem to be on no shard. A shard that was not read may hold them.
    async fn look_again<'a>(
        &mut self,
        (mongos, options): (&mut Connection, &ConnectOptions),
        audits: &[Audit<'a>],
        seen: &Audit<'a>,
        reader: &Reader<'a>,
    ) -> Result<(), String> {
        if !self.shards.open.is_empty() {
            return Ok(());
        }
        let (mut numbers, unread) = bounded(seen.unplaced(audits));
        for _ in 0..ROUNDS {
            numbers = unplaced((mongos, options), &numbers, seen, reader).await?;
        }
        let confirmed = Confirmed { differences: numbers, unread };
        self.shards.open.extend(confirmed.unread("the mongos"));
        let Confirmed { differences: mut numbers, .. } = confirmed;
        self.placement.unplaced.0 = numbers.len() as u64;
        numbers.truncate(EXAMPLES_MAX);
        self.placement.unplaced.1 = numbers;
        Ok(())
    }
}

/// The documents that the mongos shows and no shard holds, read now. The shards are listed anew: a new shard
/// may have got a chunk.
async fn unplaced<'a>(
    (mongos, options): (&mut Connection, &ConnectOptions),
    numbers: &[u64],
    seen: &Audit<'a>,
    reader: &Reader<'a>,
) -> Result<Vec<u64>, String> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let sentence = |error: plimsoll_wire::Error| {
        format!("Documents that seemed to be on no shard could not be read again: {error}.")
    };
    let mut here = seen.afresh();
    look_up(mongos, &reader.spec(mongos), numbers, &mut here, reader).await.map_err(sentence)?;
    let reached = find(mongos, options, reader).await?;
    if let Some(failed) = reached.failed.into_iter().next() {
        return Err(failed);
    }
    let mut copies = Vec::new();
    for mut shard in reached.shards {
        let mut copy = seen.afresh();
        let spec = reader.spec(&shard.connection);
        look_up(&mut shard.connection, &spec, numbers, &mut copy, reader).await.map_err(sentence)?;
        copies.push(copy);
    }
    Ok(here.unplaced(&copies).collect())
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
