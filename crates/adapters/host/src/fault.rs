//! Defines the faults of a scenario's timeline, as typed.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::proxy::Direction;
use crate::proxy::Disturbance;

/// A fault of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Kills the server's process as `kill -9` does, and restarts it on the same storage.
    Kill {
        /// The time between kill and restart; recovery comes on top.
        down: Span,
    },
    /// Cuts the power of the server's machine: kills its process, takes back every write that it has not synced, and restarts it on the
    /// same storage. Needs the embedded server and a C compiler.
    PowerLoss {
        /// The time between loss and restart; recovery comes on top.
        down: Span,
    },
    /// Pauses the server's process, connections open, and resumes it later.
    Freeze {
        /// The duration of the fault.
        lasts: Span,
    },
    /// Disturbs the network between the load and the server.
    Network {
        /// The duration of the fault.
        lasts: Span,
        /// The disturbance.
        how: Network,
    },
}

/// A disturbance of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// Delays every byte.
    Delay {
        /// The smallest delay.
        by: Span,
        /// The largest random addition to the delay.
        #[serde(default)]
        jitter: Span,
        /// The direction of the delayed bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// Limits the bytes a second, for each connection and direction separately.
    Throttle {
        /// The bytes a second.
        bytes_per_s: NonZeroU64,
        /// The direction of the limited bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// Closes every connection, and new connections as soon as they are open.
    Cut,
    /// Resets every connection, and new connections as soon as they are open.
    Reset,
    /// Swallows bytes: their sender notices nothing.
    HalfOpen {
        /// The direction of the swallowed bytes.
        #[serde(default)]
        direction: Direction,
    },
    /// Stops all bytes and loses none.
    Stall,
    /// Drops runs of bytes from the stream, which continues after the gap.
    DropBytes {
        /// The average number of dropped runs in 2²⁰ bytes.
        per_mebibyte: NonZeroU32,
        /// The number of bytes in a run.
        bytes: NonZeroU32,
        /// The direction of the dropped bytes.
        #[serde(default)]
        direction: Direction,
    },
}

impl Fault {
    /// The name for reports: `kill`, `power loss`, `freeze`, `network: cut`.
    pub fn name(&self) -> String {
        match self {
            Self::Kill { .. } => "kill".to_owned(),
            Self::PowerLoss { .. } => "power loss".to_owned(),
            Self::Freeze { .. } => "freeze".to_owned(),
            Self::Network { how, .. } => format!("network: {}", how.name()),
        }
    }

    /// The duration of the fault.
    pub const fn lasts(&self) -> Span {
        match self {
            Self::Kill { down } | Self::PowerLoss { down } => *down,
            Self::Freeze { lasts } | Self::Network { lasts, .. } => *lasts,
        }
    }

    /// Whether the fault acts on the server's process, which Plimsoll must then have started.
    pub const fn needs_process(&self) -> bool {
        matches!(self, Self::Kill { .. } | Self::PowerLoss { .. } | Self::Freeze { .. })
    }

    /// Whether the fault needs a server whose unsynced writes can be discarded. A server can do so only if it
    /// was started with `PowerLoss::Possible`.
    pub const fn needs_power_loss(&self) -> bool {
        matches!(self, Self::PowerLoss { .. })
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
                direction,
                delay: Duration::from_nanos(by.as_ns()),
                jitter: Duration::from_nanos(jitter.as_ns()),
            },
            Self::Throttle { bytes_per_s, direction } => Disturbance::Throttle { direction, bytes_per_s },
            Self::Cut => Disturbance::Cut,
            Self::Reset => Disturbance::Reset,
            Self::HalfOpen { direction } => Disturbance::HalfOpen { direction },
            Self::Stall => Disturbance::Stall,
            Self::DropBytes { per_mebibyte, bytes, direction } => {
                Disturbance::DropBytes { direction, per_mebibyte, bytes }
            }
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
        let power = read(r#"{"power_loss": {"down": "1s"}}"#);
        assert_eq!(
            (power.name().as_str(), power.needs_process(), power.needs_power_loss()),
            ("power loss", true, true)
        );
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
            direction: Direction::ToClient,
            delay: Duration::from_millis(5),
            jitter: Duration::ZERO,
        };
        assert_eq!(how.disturbance(), expected);
    }
}
