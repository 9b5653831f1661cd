//! Reads the other members of a replica set directly, and compares their documents with those of the primary.

use std::time::Duration;

use plimsoll_deployment::{Position, catch_up_to, progress};
use plimsoll_ledger::Audit;
use plimsoll_ledger::audit::Differences;
use plimsoll_measure::clock;
use plimsoll_measure::integrity::Members;
use plimsoll_wire::{Address, ConnectOptions, Connection, Hello, ReadMode, ReadPreference};

use super::{Error, Listener, Reader, connect, read, spec};

/// The most members of a replica set that are compared, as in MongoDB.
const MEMBERS_MAX: usize = 50;
/// The longest wait for a member that accepts no connection.
const REACH_MAX: Duration = Duration::from_secs(10);
/// The pause between two attempts to reach a member.
const REACH_AGAIN: Duration = Duration::from_millis(100);

/// The compared members, with their differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// The members that were compared, and why others were not.
    pub members: Members,
    /// The differences of each member that has any, by its address.
    pub differences: Vec<(String, Differences)>,
}

impl Compared {
    /// Adds the members of another replica set.
    pub(super) fn extend(&mut self, other: Self) {
        self.members.compared.extend(other.members.compared);
        self.members.open.extend(other.members.open);
        self.differences.extend(other.differences);
    }
}

/// Compares each other member with `seen`, the scan of the primary that has just ended.
pub(super) async fn compare<'a>(
    primary: &mut Connection,
    options: &ConnectOptions,
    seen: &Audit<'a>,
    reader: &Reader<'a>,
    listener: &mut impl Listener,
) -> Compared {
    let (mut compared, others) = (Compared::default(), others(primary));
    if others.is_empty() || !reader.scope.compares_members() {
        return compared;
    }
    let target = progress(primary).await.map(|progress| progress.applied);
    for member in others {
        let found = match &target {
            Ok(target) => look_at(&member, options, *target, seen, reader, listener).await,
            Err(error) => Err(Error::NoTarget(error.to_string())),
        };
        match found {
            Ok(differences) if differences.count > 0 => {
                compared.differences.push((member.clone(), differences));
                compared.members.compared.push(member);
            }
            Ok(_) => compared.members.compared.push(member),
            Err(error) => compared.members.open.push(sentence(&member, &error)),
        }
    }
    compared
}

fn sentence(member: &str, error: &Error) -> String {
    format!(
        "The documents on the member {member} were not compared with the primary's: {error}. With `audit: {{lag_max: 0s}}` the \
         audit reads the primary alone."
    )
}

/// The other members that keep documents, by their names within the set. The only member of a set may name itself by another address.
fn others(connection: &Connection) -> Vec<String> {
    let Hello { hosts, passives, me, .. } = connection.hello();
    let own = me.clone().unwrap_or_else(|| connection.address().to_string());
    let all = || hosts.iter().chain(passives);
    if all().count() < 2 {
        return Vec::new();
    }
    all().filter(|member| **member != own).take(MEMBERS_MAX).cloned().collect()
}

async fn look_at<'a>(
    member: &str,
    options: &ConnectOptions,
    target: Position,
    seen: &Audit<'a>,
    reader: &Reader<'a>,
    listener: &mut impl Listener,
) -> Result<Differences, Error> {
    let address: Address = member.parse().map_err(|_| Error::Address(member.to_owned()))?;
    let limit = reader.scope.lag_max;
    let mut connection = reach(&ConnectOptions { address, ..options.clone() }, limit.min(REACH_MAX)).await?;
    catch_up_to(&mut connection, target, limit).await?;
    // Every document of this member counts, also one that it does not yet know a majority to have.
    let mut spec = spec(&connection, reader.scope.namespace);
    spec.read_concern = None;
    spec.read_preference = ReadPreference::of(ReadMode::SecondaryPreferred);
    let (mut audit, mut reader) = (seen.afresh(), reader.afresh());
    read(&mut connection, &spec, &mut audit, &mut reader, listener).await?;
    Ok(seen.differences(&audit))
}

/// Connects to a server that may be restarting.
pub(super) async fn reach(options: &ConnectOptions, limit: Duration) -> Result<Connection, Error> {
    let began = clock::now();
    loop {
        match connect(options).await {
            Err(_) if u128::from(clock::now().since(began)) < limit.as_nanos() => {
                tokio::time::sleep(REACH_AGAIN).await;
            }
            connected => return Ok(connected?),
        }
    }
}
