//! The parts of a pipeline's file that are the engine's own, as typed.

mod made_up;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{DeadLetterLimit, Executor, Exhausted, Retry};
use crate::flow::Limits;
use crate::guarantee::Guarantee;

pub use made_up::MadeUp;

/// How often an event that was read arrives, as typed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promised {
    /// Never twice, perhaps not at all.
    AtMostOnce,
    /// At least once, perhaps twice.
    #[default]
    AtLeastOnce,
    /// As if exactly once.
    EffectivelyOnce,
}

impl From<Promised> for Guarantee {
    fn from(typed: Promised) -> Self {
        match typed {
            Promised::AtMostOnce => Self::AtMostOnce,
            Promised::AtLeastOnce => Self::AtLeastOnce,
            Promised::EffectivelyOnce => Self::EffectivelyOnce,
        }
    }
}

/// How much may be in flight, as typed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ceiling {
    /// Events in flight at most; if left out, what suits the sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// Bytes in flight at most.
    pub bytes: Bytes,
    /// Events of one batch at most.
    pub batch: usize,
    /// Bytes of one event at most.
    pub event: Bytes,
}

impl Default for Ceiling {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            events: None,
            bytes: Bytes::new(limits.bytes_max as u64),
            batch: limits.batch_events_max,
            event: Bytes::new(limits.event_bytes_max as u64),
        }
    }
}

impl From<Ceiling> for Limits {
    fn from(typed: Ceiling) -> Self {
        let bytes = |bytes: Bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        Self {
            events_max: typed.events.unwrap_or(Self::default().events_max),
            bytes_max: bytes(typed.bytes),
            batch_events_max: typed.batch,
            event_bytes_max: bytes(typed.event),
        }
    }
}

/// Which threads transform and write, as typed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Threads {
    /// So many threads.
    Pool(usize),
    /// A thread for each partition that is open.
    PerPartition,
}

impl Default for Threads {
    fn default() -> Self {
        Self::Pool(2)
    }
}

impl From<Threads> for Executor {
    fn from(typed: Threads) -> Self {
        match typed {
            Threads::Pool(threads) => Self::Pool(threads),
            Threads::PerPartition => Self::PerPartition,
        }
    }
}

/// What follows when a batch may not be tried again, as typed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The pipeline stops.
    #[default]
    Stop,
    /// Its events go to the dead letters.
    DeadLetters,
}

/// How a batch that failed is tried again, as typed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Again {
    /// The pause after a first failure; it doubles with each in a row.
    pub pause: Span,
    /// The longest pause.
    pub pause_max: Span,
    /// Tries after the first at most; as often as it takes if left out.
    pub attempts: Option<u32>,
    /// How long a batch is tried again; as long as it takes if left out.
    #[serde(rename = "for")]
    pub time: Option<Span>,
    /// What follows when neither is left.
    pub then: Then,
    /// Failures in a row after which one batch at a time tries.
    pub circuit_opens_after: u32,
}

impl Default for Again {
    fn default() -> Self {
        let retry = Retry::default();
        Self {
            pause: Span::from_ns(retry.pause_ns_min),
            pause_max: Span::from_ns(retry.pause_ns_max),
            attempts: None,
            time: None,
            then: Then::Stop,
            circuit_opens_after: retry.opens_after,
        }
    }
}

impl From<Again> for Retry {
    fn from(typed: Again) -> Self {
        Self {
            pause_ns_min: typed.pause.as_ns(),
            pause_ns_max: typed.pause_max.as_ns(),
            attempts_max: typed.attempts,
            time_ns_max: typed.time.map(Span::as_ns),
            then: match typed.then {
                Then::Stop => Exhausted::Stop,
                Then::DeadLetters => Exhausted::Bury,
            },
            opens_after: typed.circuit_opens_after.max(1),
        }
    }
}

/// How many dead letters are too many, as typed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TooMany {
    /// So many at most.
    pub most: u64,
    /// Among so many events.
    pub of: u64,
}

impl From<TooMany> for DeadLetterLimit {
    fn from(typed: TooMany) -> Self {
        Self { most: typed.most, of: typed.of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_what_the_engine_does() {
        assert_eq!(Limits::from(Ceiling::default()), Limits::default());
        assert_eq!(Retry::from(Again::default()), Retry::default());
    }
}
