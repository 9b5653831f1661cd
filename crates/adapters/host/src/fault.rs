//! Defines the faults of a scenario's timeline, as typed.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proxy::{self, Disturbance};

/// A fault of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Its process is killed as by `kill -9` and started again on the same storage.
    Kill {
        /// How long it stays down before it is started again; recovery comes on top.
        down: Span,
    },
    /// Its process is stopped where it is, connections open, and goes on later.
    Freeze {
        /// For how long.
        lasts: Span,
    },
    /// The network between the load and the server is disturbed.
    Network {
        /// For how long.
        lasts: Span,
        /// How.
        how: Network,
    },
}

/// A disturbance of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// Every byte arrives later.
    Delay {
        /// How much later at least.
        by: Span,
        /// How much later on top of that at most.
        #[serde(default)]
        jitter: Span,
        /// Whose bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// No more than so many bytes a second pass, each connection and direction by itself.
    Throttle {
        /// How many a second.
        bytes_per_s: NonZeroU64,
        /// Whose bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// Every connection is closed, and new ones as soon as they are open.
    Cut,
    /// Every connection is reset, and new ones as soon as they are open.
    Reset,
    /// Bytes are swallowed: their sender notices nothing.
    HalfOpen {
        /// Whose bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// Nothing passes, and nothing is lost.
    Stall,
    /// Runs of bytes are cut out of the stream, which goes on with a hole.
    DropBytes {
        /// How many runs in 2²⁰ bytes, on average.
        per_mebibyte: NonZeroU32,
        /// How many bytes a run has.
        bytes: NonZeroU32,
        /// Whose bytes.
        #[serde(default)]
        direction: Direction,
    },
}

/// Whose bytes a disturbance concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client's.
    ToServer,
    /// The server's.
    ToClient,
    /// Both.
    #[default]
    Both,
}

impl Fault {
    /// A few words for reports: `kill`, `freeze`, `network: cut`.
    pub fn name(&self) -> String {
        match self {
            Self::Kill { .. } => "kill".to_owned(),
            Self::Freeze { .. } => "freeze".to_owned(),
            Self::Network { how, .. } => format!("network: {}", how.name()),
        }
    }

    /// How long it lasts.
    pub const fn lasts(&self) -> Span {
        match self {
            Self::Kill { down } => *down,
            Self::Freeze { lasts } | Self::Network { lasts, .. } => *lasts,
        }
    }

    /// Whether it is done to the server's process, which must be our own then.
    pub const fn needs_process(&self) -> bool {
        matches!(self, Self::Kill { .. } | Self::Freeze { .. })
    }
}

impl Network {
    /// The disturbance's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Throttle { .. } => "throttle",
            Self::Cut => "cut",
            Self::Reset => "reset",
            Self::HalfOpen { .. } => "half open",
            Self::Stall => "stall",
            Self::DropBytes { .. } => "drop bytes",
        }
    }

    /// The disturbance of the proxy.
    pub const fn disturbance(self) -> Disturbance {
        match self {
            Self::Delay { by, jitter, direction } => Disturbance::Delay {
                direction: direction.meant(),
                delay: Duration::from_nanos(by.as_ns()),
                jitter: Duration::from_nanos(jitter.as_ns()),
            },
            Self::Throttle { bytes_per_s, direction } => {
                Disturbance::Throttle { direction: direction.meant(), bytes_per_s }
            }
            Self::Cut => Disturbance::Cut,
            Self::Reset => Disturbance::Reset,
            Self::HalfOpen { direction } => Disturbance::HalfOpen { direction: direction.meant() },
            Self::Stall => Disturbance::Stall,
            Self::DropBytes { per_mebibyte, bytes, direction } => {
                Disturbance::DropBytes { direction: direction.meant(), per_mebibyte, bytes }
            }
        }
    }
}

impl Direction {
    const fn meant(self) -> proxy::Direction {
        match self {
            Self::ToServer => proxy::Direction::ToServer,
            Self::ToClient => proxy::Direction::ToClient,
            Self::Both => proxy::Direction::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Fault {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn faults_are_written_in_a_few_words() {
        assert_eq!(read(r#"{"kill": {"down": "1s"}}"#), Fault::Kill { down: Span::from_secs(1) });
        let cut = read(r#"{"network": {"lasts": "2s", "how": "cut"}}"#);
        assert_eq!(
            (cut.name().as_str(), cut.lasts(), cut.needs_process()),
            ("network: cut", Span::from_secs(2), false)
        );
        let delay = read(
            r#"{"network": {"lasts": "2s", "how": {"delay": {"by": "5ms", "direction": "to_client"}}}}"#,
        );
        let Fault::Network { how, .. } = delay else { panic!("{delay:?}") };
        let expected = Disturbance::Delay {
            direction: proxy::Direction::ToClient,
            delay: Duration::from_millis(5),
            jitter: Duration::ZERO,
        };
        assert_eq!(how.disturbance(), expected);
    }
}
