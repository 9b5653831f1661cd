//! Defines the figures of a phase.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;

/// The figures of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseFacts {
    /// Its name.
    pub name: String,
    /// How its operations arrived, as text, by the load's name.
    pub arrivals: BTreeMap<String, String>,
    /// Whether due differs from sent: false for closed arrivals, where saturation is hidden.
    pub open: bool,
    /// Seconds from the run's start to the phase's start.
    pub from_s: f64,
    /// Seconds from the run's start to the phase's end.
    pub to_s: f64,
    /// Why it ended: `duration`, `operations`, `documents`, `not_reached`, `threshold`, `unreachable`, `interrupted`.
    pub ended_by: String,
    /// Where the steady state starts.
    pub warm_up: WarmUp,
    /// Full checkpoints of the storage engine in the phase; absent if not reported.
    pub checkpoints: Option<u64>,
    /// Operations acknowledged in it.
    #[serde(default)]
    pub operations: u64,
    /// Documents acknowledged in it.
    #[serde(default)]
    pub documents: u64,
    /// Documents per second over all of it.
    #[serde(default)]
    pub documents_per_s: f64,
    /// Response time of all its operations.
    #[serde(default)]
    pub response_ns: Latency,
    /// Failed operations.
    #[serde(default)]
    pub errors: u64,
    /// CPU of the workers ÷ operations, in microseconds; absent if too few operations support it.
    #[serde(default)]
    pub cpu_us_per_operation: Option<f64>,
}

/// Whether and where a steady state was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum WarmUp {
    /// Fewer than 30 intervals of 100 ms.
    #[default]
    NotAssessed,
    /// Steady from this many seconds after the phase's start.
    Steady {
        /// Seconds after the phase's start.
        from_s: f64,
    },
    /// Throughput or p99 kept changing to the end.
    NotSteady {
        /// The change.
        reason: String,
    },
}
