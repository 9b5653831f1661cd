//! Defines the engine's sections of a pipeline file.

mod generator;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{DeadLetterLimit, Executor, Exhausted, Retry};
use crate::flow::Limits;
use crate::guarantee::Guarantee;

pub use generator::GeneratorConfig;

/// The delivery guarantee of the events.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuaranteeConfig {
    /// An event is never written twice, and may be lost.
    AtMostOnce,
    /// Every event is written, perhaps twice.
    #[default]
    AtLeastOnce,
    /// Every event has the effect of one write.
    EffectivelyOnce,
}

impl From<GuaranteeConfig> for Guarantee {
    fn from(typed: GuaranteeConfig) -> Self {
        match typed {
            GuaranteeConfig::AtMostOnce => Self::AtMostOnce,
            GuaranteeConfig::AtLeastOnce => Self::AtLeastOnce,
            GuaranteeConfig::EffectivelyOnce => Self::EffectivelyOnce,
        }
    }
}

/// Limits of the events in flight.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Events in flight at most. Default: depends on the sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// Bytes in flight at most.
    pub bytes: Bytes,
    /// Events of one batch at most.
    pub batch: usize,
    /// Bytes of one event at most.
    pub event: Bytes,
}

impl Default for LimitsConfig {
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

impl From<LimitsConfig> for Limits {
    fn from(typed: LimitsConfig) -> Self {
        let bytes = |bytes: Bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        Self {
            events_max: typed.events.unwrap_or(Self::default().events_max),
            bytes_max: bytes(typed.bytes),
            batch_events_max: typed.batch,
            event_bytes_max: bytes(typed.event),
        }
    }
}

/// The threads that transform and write.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorConfig {
    /// A number of threads.
    Pool(usize),
    /// One thread for each open partition.
    PerPartition,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self::Pool(2)
    }
}

impl From<ExecutorConfig> for Executor {
    fn from(typed: ExecutorConfig) -> Self {
        match typed {
            ExecutorConfig::Pool(threads) => Self::Pool(threads),
            ExecutorConfig::PerPartition => Self::PerPartition,
        }
    }
}

/// The action when the retries of a batch are exhausted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExhaustedConfig {
    /// The pipeline stops.
    #[default]
    Stop,
    /// Its events go to the dead letters.
    DeadLetters,
}

/// The retry policy of failed batches.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// The pause after a first failure. It doubles with each consecutive failure.
    pub pause: Span,
    /// The longest pause.
    pub pause_max: Span,
    /// Retries at most. Default: unlimited.
    pub attempts: Option<u32>,
    /// The time limit of a batch's retries. Default: unlimited.
    #[serde(rename = "for")]
    pub time: Option<Span>,
    /// The action when the retries are exhausted.
    pub then: ExhaustedConfig,
    /// Consecutive failures after which only one batch at a time is tried.
    pub circuit_opens_after: u32,
}

impl Default for RetryConfig {
    fn default() -> Self {
        let retry = Retry::default();
        Self {
            pause: Span::from_ns(retry.pause_ns_min),
            pause_max: Span::from_ns(retry.pause_ns_max),
            attempts: None,
            time: None,
            then: ExhaustedConfig::Stop,
            circuit_opens_after: retry.opens_after,
        }
    }
}

impl From<RetryConfig> for Retry {
    fn from(typed: RetryConfig) -> Self {
        Self {
            pause_ns_min: typed.pause.as_ns(),
            pause_ns_max: typed.pause_max.as_ns(),
            attempts_max: typed.attempts,
            time_ns_max: typed.time.map(Span::as_ns),
            then: match typed.then {
                ExhaustedConfig::Stop => Exhausted::Stop,
                ExhaustedConfig::DeadLetters => Exhausted::DeadLetters,
            },
            opens_after: typed.circuit_opens_after.max(1),
        }
    }
}

/// The number of dead letters that stops the pipeline.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterLimitConfig {
    /// Dead letters at most.
    pub most: u64,
    /// The number of latest events in which dead letters are counted.
    pub of: u64,
}

impl From<DeadLetterLimitConfig> for DeadLetterLimit {
    fn from(typed: DeadLetterLimitConfig) -> Self {
        Self { most: typed.most, of: typed.of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_engine() {
        assert_eq!(Limits::from(LimitsConfig::default()), Limits::default());
        assert_eq!(Retry::from(RetryConfig::default()), Retry::default());
    }
}
