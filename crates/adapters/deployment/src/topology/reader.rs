//! Connects reads to the member of a replica set that a read preference selects.
//!
//! The rules are those of MongoDB's Server Selection specification. Where that specification draws one of several fitting members at
//! random, connections take turns, so that the load on them is even and the same in every run.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use mongodb::options::ClientOptions;
use plimsoll_measure::clock;
use plimsoll_wire::{Address, ConnectOptions, Connection, Hello, ReadMode, ReadPreference};
use tokio::task::JoinSet;

use super::{Deployment, takes_writes};
use crate::error::Error;

/// The time limit for a member's description: a frozen member must not delay the others for long.
const ASK_MAX: Duration = Duration::from_secs(1);
use crate::uri::CONNECT_TIMEOUT;

/// The pause before the members are asked again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The largest excess of a round trip over that to the nearest member, when the URI sets no
/// `localThresholdMS`.
const WINDOW: Duration = Duration::from_millis(15);

/// The members of a replica set, and the URI's settings that select a member.
#[derive(Debug)]
pub(super) struct Members {
    /// Whether the URI names one server for all operations: `directConnection=true`.
    pub(super) is_single: bool,
    window: Duration,
    /// The time limit for finding a member.
    limit: Duration,
    known: RwLock<Vec<Member>>,
}

impl Default for Members {
    fn default() -> Self {
        Self { is_single: false, window: WINDOW, limit: CONNECT_TIMEOUT, known: RwLock::default() }
    }
}

impl Members {
    pub(super) fn of(options: &ClientOptions) -> Self {
        Self {
            is_single: options.direct_connection == Some(true),
            window: options.local_threshold.unwrap_or(WINDOW),
            limit: options.server_selection_timeout.unwrap_or(CONNECT_TIMEOUT),
            known: RwLock::default(),
        }
    }

    /// The same settings behind proxies; the members are unknown.
    pub(super) fn behind(&self) -> Self {
        Self { is_single: self.is_single, window: self.window, limit: self.limit, known: RwLock::default() }
    }
}

/// A member that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    address: Address,
    hello: Hello,
    /// The round trip of a ping, in nanoseconds.
    trip_ns: u64,
}

impl Member {
    fn has(&self, tags: &BTreeMap<String, String>) -> bool {
        tags.iter().all(|(key, value)| self.hello.tags.get(key) == Some(value))
    }
}

impl Deployment {
    /// Whether a read preference selects among several members. Otherwise every operation goes to the same server.
    pub const fn has_members(&self) -> bool {
        self.moves
    }

    /// Whether the set of the last answer has more than one member.
    pub fn has_several_members(&self) -> bool {
        self.has_members() && self.member_addresses().len() > 1
    }

    /// The read preference to send to a server with this description. A standalone server gets none. A single
    /// member of a replica set needs permission to answer as a secondary.
    pub fn sent_preference(&self, hello: &Hello, wanted: &ReadPreference) -> ReadPreference {
        match hello.set_name {
            None if !hello.is_mongos => ReadPreference::default(),
            Some(_) if self.members.is_single && wanted.is_primary() => {
                ReadPreference::of(ReadMode::PrimaryPreferred)
            }
            _ => wanted.clone(),
        }
    }

    /// Connects to a server that may answer reads with the URI's read preference. A server outside a replica set may answer all.
    ///
    /// # Errors
    /// The reason why no server could be reached.
    pub async fn connect_to_read(&self) -> Result<Connection, Error> {
        match &self.concerns().preference {
            Some(preference) if self.has_members() && !preference.is_primary() => {
                self.connect_for(preference).await
            }
            _ => self.connect().await,
        }
    }

    /// Connects to a server as [`Self::connect_to_read`] does, without waiting for a member.
    ///
    /// # Errors
    /// The reason why no server could be reached.
    pub async fn try_connect_to_read(&self) -> Result<Connection, Error> {
        if !self.has_members() {
            return self.connect().await;
        }
        // The error of an address says more than that no member answers, if it is final or no other address is known.
        if let Err(error) = self.open(&self.options()).await
            && (error.is_final() || self.is_alone())
        {
            return Err(error);
        }
        self.try_connect_for(&self.concerns().preference.clone().unwrap_or_default()).await
    }

    /// Connects to a member that may answer reads with this preference. Waits for a member as long as the
    /// URI's `serverSelectionTimeoutMS` allows, 5 s by default.
    ///
    /// # Errors
    /// The reason why no member could be reached.
    pub async fn connect_for(&self, preference: &ReadPreference) -> Result<Connection, Error> {
        let mut failure = None;
        let attempts = async {
            loop {
                match self.try_connect_for(preference).await {
                    Err(error) if !error.is_final() => failure = Some(error),
                    settled => return settled,
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let found = tokio::time::timeout(self.members.limit, attempts).await;
        found.unwrap_or_else(|_| {
            Err(failure.unwrap_or_else(|| no_member(preference, "no answer in time".into())))
        })
    }

    /// Connects to a member as [`Self::connect_for`] does, without waiting for a member.
    ///
    /// # Errors
    /// The reason why no member could be reached.
    pub async fn try_connect_for(&self, preference: &ReadPreference) -> Result<Connection, Error> {
        let known = self.members.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        // A known member that is silent must not use up the time in which the others can be asked.
        match tokio::time::timeout(ASK_MAX, self.connect_among(&known, preference)).await {
            Err(_) => {}
            // An election took place since the members were asked.
            Ok(Ok(connection)) if names_another_primary(&known, connection.hello()) => {}
            Ok(Err(error)) if !error.is_final() => {}
            Ok(settled) => return settled,
        }
        let found = self.find_members().await?;
        self.connect_among(&found, preference).await
    }

    async fn connect_among(
        &self,
        members: &[Member],
        preference: &ReadPreference,
    ) -> Result<Connection, Error> {
        let is_set = members.iter().any(|member| member.hello.set_name.is_some());
        let fit = if is_set { eligible(members, preference) } else { members.iter().collect() };
        let fit = near(fit, self.members.window);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let Some(member) = fit.get(turn % fit.len().max(1)) else {
            return Err(no_member(preference, shown(members)));
        };
        let connection = self.open(&self.options_for(member.address.clone())).await?;
        let now = connection.hello();
        if self.is_member(now)
            && (takes_writes(now), now.is_secondary)
                == (takes_writes(&member.hello), member.hello.is_secondary)
        {
            Ok(connection)
        } else {
            Err(no_member(preference, format!("{} changed its role", member.address)))
        }
    }

    /// Learns the newest election from all members that answer.
    pub(super) async fn learn_members(&self) {
        // Without a member nothing is learned, and the next connection reports the reason.
        self.find_members().await.unwrap_or_default();
    }

    /// Asks every known member for its role, its tags and a round trip. A silent member delays the others' answers for a second.
    ///
    /// # Errors
    /// If all servers that answer belong to another replica set than the URI names.
    async fn find_members(&self) -> Result<Vec<Member>, Error> {
        let mut asked = JoinSet::new();
        for address in self.member_addresses() {
            let limit = ASK_MAX.min(self.members.limit / 2);
            asked.spawn(tokio::time::timeout(limit, ask(self.options_for(address))));
        }
        let mut members: Vec<Member> = asked.join_all().await.into_iter().flatten().flatten().collect();
        members.iter().for_each(|member| self.learn(&member.hello));
        let other_set = members.iter().find_map(|member| self.other_set(&member.address, &member.hello));
        members.retain(|member| self.is_member(&member.hello));
        members.sort_by_key(|member| member.address.to_string());
        self.members.known.write().unwrap_or_else(PoisonError::into_inner).clone_from(&members);
        match other_set.filter(|_| members.is_empty()) {
            Some(error) => Err(error),
            None => Ok(members),
        }
    }

    fn member_addresses(&self) -> Vec<Address> {
        let set = self.replica_set();
        let named = set.members.iter().chain(&set.passives).filter_map(|name| name.parse().ok());
        let named: Vec<Address> = named.collect();
        if named.is_empty() { self.addresses() } else { named }
    }
}

async fn ask(options: ConnectOptions) -> Option<Member> {
    let mut connection = Connection::connect(&options).await.ok()?;
    let began = clock::now();
    connection.ping().await.ok()?;
    let trip_ns = clock::now().since(began);
    Some(Member { address: options.address, hello: connection.hello().clone(), trip_ns })
}

/// Whether a member follows another primary than the known one.
fn names_another_primary(known: &[Member], hello: &Hello) -> bool {
    let primary = known.iter().find(|member| takes_writes(&member.hello)).map(|member| &member.address);
    let named = hello.primary.as_ref().and_then(|name| name.parse().ok());
    primary.zip(named).is_some_and(|(primary, named)| *primary != named)
}

fn no_member(preference: &ReadPreference, detail: String) -> Error {
    Error::NoMember { mode: preference.mode.name(), detail }
}

fn shown(members: &[Member]) -> String {
    let role = |member: &Member| match (takes_writes(&member.hello), member.hello.is_secondary) {
        (true, _) => "primary",
        (_, true) => "secondary",
        _ => "neither primary nor secondary",
    };
    let members: Vec<_> = members.iter().map(|it| format!("{} is {}", it.address, role(it))).collect();
    if members.is_empty() { "no member answers".to_owned() } else { members.join(", ") }
}

/// The members that may answer reads with a preference.
fn eligible<'a>(members: &'a [Member], preference: &ReadPreference) -> Vec<&'a Member> {
    let primary = || members.iter().filter(|member| takes_writes(&member.hello)).collect();
    let secondaries = || members.iter().filter(|member| member.hello.is_secondary);
    let tagged = |members: Vec<&'a Member>| with_tags(members, preference);
    let first =
        |first: Vec<&'a Member>, second: Vec<&'a Member>| if first.is_empty() { second } else { first };
    match preference.mode {
        ReadMode::Primary => primary(),
        ReadMode::PrimaryPreferred => first(primary(), tagged(secondaries().collect())),
        ReadMode::Secondary => tagged(secondaries().collect()),
        ReadMode::SecondaryPreferred => first(tagged(secondaries().collect()), primary()),
        ReadMode::Nearest => tagged(primary().into_iter().chain(secondaries()).collect()),
    }
}

/// The members that the first matching set of tags selects; all without a set.
fn with_tags<'a>(members: Vec<&'a Member>, preference: &ReadPreference) -> Vec<&'a Member> {
    if preference.tag_sets.is_empty() {
        return members;
    }
    let matching = |tags: &BTreeMap<String, String>| {
        members.iter().copied().filter(|member| member.has(tags)).collect::<Vec<_>>()
    };
    preference.tag_sets.iter().map(matching).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The members whose round trip is at most `window` longer than the shortest.
fn near(members: Vec<&Member>, window: Duration) -> Vec<&Member> {
    let shortest_ns = members.iter().map(|member| member.trip_ns).min().unwrap_or(0);
    let longest_ns = shortest_ns.saturating_add(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
    members.into_iter().filter(|member| member.trip_ns <= longest_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(dc: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("dc".to_owned(), dc.to_owned())])
    }

    /// A primary in the east, a secondary in the east, two in the west, one of them far away, and an arbiter.
    fn members() -> Vec<Member> {
        let member = |port, dc: &str, leads, follows, trip_ms: u64| {
            let mut hello = Hello::default();
            (hello.is_writable_primary, hello.is_secondary, hello.tags) = (leads, follows, tags(dc));
            Member { address: Address { host: "h".into(), port }, hello, trip_ns: trip_ms * 1_000_000 }
        };
        vec![
            member(1, "east", true, false, 10),
            member(2, "east", false, true, 1),
            member(3, "west", false, true, 2),
            member(4, "west", false, true, 30),
            member(5, "west", false, false, 1),
        ]
    }

    fn ports(members: &[Member], mode: ReadMode, tag_sets: &[BTreeMap<String, String>]) -> Vec<u16> {
        let preference = ReadPreference { mode, tag_sets: tag_sets.to_vec(), max_staleness_s: None };
        eligible(members, &preference).iter().map(|member| member.address.port).collect()
    }

    #[test]
    fn a_mode_selects_members_by_their_role() {
        let (with, without) = (members(), &members()[1..]);
        for (mode, expected, without_primary) in [
            (ReadMode::Primary, &[1][..], &[][..]),
            (ReadMode::PrimaryPreferred, &[1], &[2, 3, 4]),
            (ReadMode::Secondary, &[2, 3, 4], &[2, 3, 4]),
            (ReadMode::SecondaryPreferred, &[2, 3, 4], &[2, 3, 4]),
            (ReadMode::Nearest, &[1, 2, 3, 4], &[2, 3, 4]),
        ] {
            assert_eq!(ports(&with, mode, &[]), expected, "{mode:?}");
            assert_eq!(ports(without, mode, &[]), without_primary, "{mode:?} without a primary");
        }
        assert_eq!(ports(&with[..1], ReadMode::SecondaryPreferred, &[]), [1]);
        assert_eq!(ports(&with[..1], ReadMode::Secondary, &[]), [] as [u16; 0]);
    }

    #[test]
    fn the_first_set_of_tags_with_a_member_counts() {
        let all = members();
        let (east, west, north) = (tags("east"), tags("west"), tags("north"));
        for (mode, sets, expected) in [
            (ReadMode::Secondary, &[west.clone()][..], &[3, 4][..]),
            (ReadMode::Secondary, &[north.clone(), east.clone(), west.clone()], &[2]),
            (ReadMode::Secondary, std::slice::from_ref(&north), &[]),
            (ReadMode::SecondaryPreferred, std::slice::from_ref(&north), &[1]),
            (ReadMode::PrimaryPreferred, std::slice::from_ref(&west), &[1]),
            (ReadMode::Nearest, std::slice::from_ref(&east), &[1, 2]),
            (ReadMode::Nearest, &[north.clone(), BTreeMap::new()], &[1, 2, 3, 4]),
        ] {
            assert_eq!(ports(&all, mode, sets), expected, "{mode:?} {sets:?}");
        }
    }

    #[test]
    fn a_member_that_follows_another_primary_is_recognised() {
        let names = |primary: Option<&str>| {
            let mut hello = Hello::default();
            hello.primary = primary.map(str::to_owned);
            names_another_primary(&members(), &hello)
        };
        assert_eq!([Some("h:1"), Some("h:2"), None].map(names), [false, true, false]);
        let hello = Hello::default();
        assert!(!names_another_primary(&members()[1..], &hello));
    }

    #[test]
    fn a_member_outside_the_latency_window_is_left_out() {
        let all = members();
        let near = |window_ms| {
            let secondaries = eligible(&all, &ReadPreference::of(ReadMode::Secondary));
            near(secondaries, Duration::from_millis(window_ms))
                .iter()
                .map(|it| it.address.port)
                .collect::<Vec<_>>()
        };
        assert_eq!((near(0), near(15), near(29)), (vec![2], vec![2, 3], vec![2, 3, 4]));
    }
}
