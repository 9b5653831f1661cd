//! Defines the figures of an operation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;

/// The figures of one operation over all phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Operations acknowledged (one batch is one operation).
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// Operations that became due.
    pub due: u64,
    /// Operations acknowledged per second of the time it was under load.
    pub rate_per_s: f64,
    /// Documents acknowledged per second of the time it was under load.
    pub documents_per_s: f64,
    /// Documents per second in the steady part; absent where none was found.
    pub steady_documents_per_s: Option<f64>,
    /// Throughput of single seconds in documents: 1st percentile, median and maximum of the full seconds.
    pub documents_in_a_second: Option<SecondsSpread>,
    /// Completed ÷ due, for open arrivals.
    pub achieved: Option<f64>,
    /// Overdue operations given up.
    pub skipped: u64,
    /// Further attempts at operations that had failed.
    #[serde(default)]
    pub retries: u64,
    /// done − due.
    pub response_ns: Latency,
    /// done − sent.
    pub service_ns: Latency,
    /// awake − due: the tool's own delay.
    pub wake_ns: Latency,
    /// sent − awake: no connection was free.
    pub wait_ns: Latency,
    /// Response time of the operations that failed.
    pub failed_response_ns: Latency,
    /// Operations that failed, by class.
    pub errors: BTreeMap<String, u64>,
    /// Documents that failed, by class.
    pub document_errors: BTreeMap<String, u64>,
    /// Bytes sent to the server.
    pub bytes_sent: u64,
    /// Bytes received from it.
    pub bytes_received: u64,
    /// CPU of the workers ÷ operations, in microseconds, over the phases with this operation alone; absent without such
    /// a phase.
    #[serde(default)]
    pub cpu_us_per_operation: Option<f64>,
}

/// The throughput of single seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondsSpread {
    /// Full seconds measured.
    pub seconds: u64,
    /// Smallest.
    pub min: f64,
    /// 1st percentile (nearest rank).
    pub p1: f64,
    /// Median.
    pub p50: f64,
    /// Largest.
    pub max: f64,
}
