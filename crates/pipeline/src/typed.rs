//! The parts of a pipeline's file that are the engine's own, as typed.

use std::time::Duration;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{DeadLetterLimit, Executor, Exhausted, Retry};
use crate::flow::Limits;
use crate::guarantee::Guarantee;
use crate::place::Partition;
use crate::source::{Generator, GeneratorSettings, Stop};

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
    /// Events in flight at most.
    pub events: usize,
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
            events: limits.events_max,
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
            events_max: typed.events,
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

/// Made-up events, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MadeUp {
    /// Partitions; each is made by a thread of its own.
    pub partitions: u32,
    /// Bytes of each payload.
    pub payload: Bytes,
    /// The key of every event.
    pub key: Option<String>,
    /// Events a second, of all partitions together; as fast as they are taken if left out.
    pub rate: Option<f64>,
    /// Events of all partitions together, at most.
    pub events: Option<u64>,
    /// For how long.
    pub duration: Option<Span>,
    /// The seed of what payloads hold.
    pub seed: u64,
}

impl Default for MadeUp {
    fn default() -> Self {
        Self {
            partitions: 1,
            payload: Bytes::new(512),
            key: None,
            rate: None,
            events: None,
            duration: None,
            seed: 1,
        }
    }
}

/// Partitions of a generator at most.
const PARTITIONS_MAX: u32 = 64;
/// Bytes of a made-up payload at most.
const PAYLOAD_BYTES_MAX: u64 = 16 << 20;

impl MadeUp {
    /// The generators, one a partition. They go on where they were if positions are kept.
    ///
    /// # Errors
    ///
    /// If it is beyond the limits, or says two ends; the sentence says what to change.
    pub fn build(&self, resumes: bool) -> Result<Vec<Generator>, String> {
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            return Err(format!("generator: `partitions` is 1 to {PARTITIONS_MAX}, not {}", self.partitions));
        }
        if self.payload.get() > PAYLOAD_BYTES_MAX {
            return Err(format!("generator: `payload` is at most {PAYLOAD_BYTES_MAX} bytes"));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err("generator: `rate` is a number of events a second above zero".into());
        }
        if self.events.is_some() && self.duration.is_some() {
            return Err("generator: say `events` or `duration`, not both".into());
        }
        Ok((0..self.partitions).map(|index| Generator::new(self.of(index, resumes))).collect())
    }

    fn of(&self, index: u32, resumes: bool) -> GeneratorSettings {
        let (parts, index64) = (u64::from(self.partitions), u64::from(index));
        let share = |events: u64| events / parts + u64::from(index64 < events % parts);
        let stop = match (self.events, self.duration) {
            (Some(events), _) => Stop::Events(share(events)),
            (None, Some(time)) => Stop::Time(Duration::from_nanos(time.as_ns())),
            (None, None) => Stop::Never,
        };
        GeneratorSettings {
            partition: Partition::new("generated", index),
            payload_bytes: usize::try_from(self.payload.get()).unwrap_or(usize::MAX),
            key: self.key.clone().map(String::into_bytes),
            rate_per_s: self.rate.map(|rate| rate / f64::from(self.partitions)),
            stop,
            resumes,
            seed: self.seed.wrapping_add(index64),
        }
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

    #[test]
    fn shares_add_up_to_the_whole() {
        let made_up = MadeUp { partitions: 3, events: Some(1000), ..MadeUp::default() };
        let shares: u64 = (0..3)
            .map(|index| match made_up.of(index, false).stop {
                Stop::Events(events) => events,
                Stop::Never | Stop::Time(_) => 0,
            })
            .sum();
        assert_eq!(shares, 1000);
        let refused = |made_up: MadeUp| made_up.build(false).err().unwrap();
        assert!(refused(MadeUp { partitions: 0, ..MadeUp::default() }).contains("partitions"));
        assert!(refused(MadeUp { rate: Some(0.0), ..MadeUp::default() }).contains("rate"));
        let both = MadeUp { events: Some(1), duration: Some(Span::from_secs(1)), ..MadeUp::default() };
        assert!(refused(both).contains("not both"));
    }
}
