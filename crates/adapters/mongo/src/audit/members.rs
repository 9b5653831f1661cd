//! Reads the other members of a replica set directly, and compares their documents with those of the primary.

use std::time::Duration;

use plimsoll_deployment::{Position, catch_up_to, progress};
use plimsoll_ledger::Audit;
use plimsoll_ledger::audit::Differences;
use plimsoll_measure::clock;
use plimsoll_measure::integrity::Members;
use plimsoll_wire::{Address, ConnectOptions, Connection, Hello};

use super::second_look::{self, Confirmed};
use super::{BATCH_TIMEOUT, Error, Listener, Reader, connect, read};

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

    fn add(&mut self, member: String, confirmed: Confirmed<Differences>) {
        self.members.open.extend(confirmed.unread(&format!("the member {member}")));
        self.members.compared.push(member.clone());
        if confirmed.differences.count > 0 {
            self.differences.push((member, confirmed.differences));
        }
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
            Ok(target) => look_at(&member, (primary, options), *target, seen, reader, listener).await,
            Err(error) => Err(Error::NoTarget(error.to_string())),
        };
        match found {
            Ok(confirmed) => compared.add(member, confirmed),
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
    (primary, options): (&mut Connection, &ConnectOptions),
    target: Position,
    seen: &Audit<'a>,
    reader: &Reader<'a>,
    listener: &mut impl Listener,
) -> Result<Confirmed<Differences>, Error> {
    let address: Address = member.parse().map_err(|_| Error::Address(member.to_owned()))?;
    let limit = reader.scope.lag_max;
    let mut connection = reach(&ConnectOptions { address, ..options.clone() }, limit.min(REACH_MAX)).await?;
    connection.set_timeout(Some(limit));
    catch_up_to(&mut connection, target, limit).await?;
    connection.set_timeout(Some(BATCH_TIMEOUT));
    let (spec, mut copy) = (reader.member_spec(&connection), seen.afresh());
    read(&mut connection, &spec, &mut copy, &mut reader.afresh(), listener).await?;
    second_look::of_member(primary, &mut connection, (seen, &copy), reader).await
}

/// Connects to a server that may be restarting. A server that accepts the connection and stays silent takes
/// at most twice the limit.
async fn reach(options: &ConnectOptions, limit: Duration) -> Result<Connection, Error> {
    let (options, began) = (hurried(options, limit), clock::now());
    loop {
        match connect(&options).await {
            Err(_) if u128::from(clock::now().since(began)) < limit.as_nanos() => {
                tokio::time::sleep(REACH_AGAIN).await;
            }
            connected => return Ok(connected?),
        }
    }
}

/// The options of a connection that opens within `limit` or fails.
pub(super) fn hurried(options: &ConnectOptions, limit: Duration) -> ConnectOptions {
    ConnectOptions { connect_timeout: options.connect_timeout.min(limit), ..options.clone() }
}
