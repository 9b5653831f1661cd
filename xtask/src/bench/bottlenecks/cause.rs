//! Lists the causes, the injection of each cause, and the right names for it.

use std::time::Duration;

use super::cgroup::Limit;

/// A known cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A CPU quota on the server.
    CpuQuota,
    /// A limit on the writes of the server's disk.
    SlowDisk,
    /// A delay of each message on its way.
    NetworkDelay,
    /// One document that every transaction updates.
    HotDocument,
    /// Two connections.
    FewConnections,
    /// A CPU quota on the load generator.
    ThrottledClient,
    /// A cache far smaller than the documents that are updated.
    SmallCache,
    /// One write ticket.
    FewTickets,
}

/// The delay of a message.
const DELAY: Duration = Duration::from_millis(10);

impl Cause {
    /// All causes.
    pub(super) const ALL: [Self; 8] = [
        Self::CpuQuota,
        Self::SlowDisk,
        Self::NetworkDelay,
        Self::HotDocument,
        Self::FewConnections,
        Self::ThrottledClient,
        Self::SmallCache,
        Self::FewTickets,
    ];

    /// The name in tables and options.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CpuQuota => "cpu-quota",
            Self::SlowDisk => "slow-disk",
            Self::NetworkDelay => "network-delay",
            Self::HotDocument => "hot-document",
            Self::FewConnections => "few-connections",
            Self::ThrottledClient => "throttled-client",
            Self::SmallCache => "small-cache",
            Self::FewTickets => "few-tickets",
        }
    }

    /// The right names. The embedded server does not report tickets, so for tickets a search rightly names
    /// nothing. Operations that wait for the network occupy connections: more connections raise the rate.
    pub(super) const fn right(self) -> &'static [&'static str] {
        match self {
            Self::CpuQuota => &["server CPU", "CPU quota"],
            Self::SlowDisk => &["disk", "journal sync"],
            Self::NetworkDelay => &["network", "connections"],
            Self::FewConnections => &["connections"],
            Self::ThrottledClient => &["client CPU", "wake"],
            Self::SmallCache => &["WiredTiger cache"],
            Self::HotDocument => &["write conflicts"],
            Self::FewTickets => &[],
        }
    }

    /// Further arguments of the server.
    pub(super) const fn server_args(self) -> &'static [&'static str] {
        match self {
            Self::SmallCache => &["--cache-size", "8M"],
            Self::FewTickets => &["--sync-on-commit", "--write-tickets", "1"],
            Self::SlowDisk | Self::FewConnections => &["--sync-on-commit"],
            _ => &[],
        }
    }

    /// The limits of the server's cgroup.
    pub(super) fn server_limits(self) -> Vec<Limit> {
        match self {
            Self::CpuQuota => vec![Limit::Cpu { cores: 0.1 }],
            Self::SlowDisk => vec![Limit::Writes { per_s: 100 }],
            _ => Vec::new(),
        }
    }

    /// The limits of the load generator's cgroup.
    pub(super) fn client_limits(self) -> Vec<Limit> {
        match self {
            Self::ThrottledClient => vec![Limit::Cpu { cores: 0.1 }],
            _ => Vec::new(),
        }
    }

    /// The delay of each message, if any.
    pub(super) const fn delay(self) -> Option<Duration> {
        match self {
            Self::NetworkDelay => Some(DELAY),
            _ => None,
        }
    }

    /// The scenario.
    pub(super) fn scenario(self) -> String {
        let connections = match self {
            Self::FewConnections => 2,
            Self::NetworkDelay => 4,
            _ => 16,
        };
        let journal = !matches!(self, Self::SmallCache | Self::CpuQuota);
        let load = match self {
            Self::HotDocument => UPDATE_ONE,
            Self::SmallCache => UPDATE_MANY,
            _ => INSERT,
        };
        let objective = if self == Self::HotDocument { CONFLICTS_ALLOWED } else { OBJECTIVE };
        format!(
            "{load}write_concern: {{w: 1, j: {journal}}}\nline:\n  connections: {connections}\n  objective: {objective}\n"
        )
    }
}

/// A loose objective, so that stalls from other programs do not decide.
const OBJECTIVE: &str = r#"{response: ["p(99)<250ms"], errors: ["count==0"]}"#;

/// Conflicting transactions fail at every rate. One in a hundred may fail, because a failure breaks the bound
/// as a late answer does.
const CONFLICTS_ALLOWED: &str = r#"{response: ["p(99)<250ms"], errors: ["rate<0.3"]}"#;

const INSERT: &str = "title: single inserts
collection: limits.documents
workers: 1
document: {n: {$sequence: {}}, note: {$text: {bytes: 400}}}
phases:
  - load: {insert: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 16}}}}
    stop: {duration: 4s}
";

/// The updates are in transactions, because the embedded server lets single updates of a document wait for
/// each other, without a conflict.
const UPDATE_ONE: &str = "title: transactions that update one document
collection: limits.documents
workers: 1
document: {n: {$sequence: {}}, note: {$text: {bytes: 400}}}
phases:
  - load: {fill: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 1}}}}
    stop: {documents: 1}
  - load: {update: {operation: {transaction: {operations: [{update: {filter: {}, update: {$inc: {count: 1}}}}]}}, arrivals: {closed: {writers: 16}}}}
    stop: {duration: 4s}
";

const UPDATE_MANY: &str = "title: updates of far more documents than the cache holds
collection: limits.documents
workers: 1
document: {n: {$sequence: {}}, note: {$text: {bytes: 2000}}}
phases:
  - load: {fill: {operation: {insert: {batch: 200}}, arrivals: {closed: {writers: 2}}}}
    stop: {documents: 100000}
  - load:
      update:
        operation: {update: {update: {$set: {note: {$text: {bytes: 2000}}}}}}
        arrivals: {closed: {writers: 16}}
    stop: {duration: 4s}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_name_and_at_most_one_injection_of_limits() {
        let mut names = Cause::ALL.map(Cause::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
        assert!(Cause::ALL.iter().all(|it| it.server_limits().is_empty() || it.client_limits().is_empty()));
    }
}
