//! Throughput at rising concurrency.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Latency;
use crate::scalability::Scalability;

/// Closed loads with more and more writers, and the law that they follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// `documents/s`, `operations/s`, or `requests/s` of a service.
    pub unit: String,
    /// By rising concurrency.
    pub rungs: Vec<Rung>,
    /// The law, where the rungs follow it.
    pub scalability: Option<Scalability>,
    /// Why there is no law, if there is none.
    pub note: Option<String>,
}

/// One step of a ladder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// Writers: operations in flight.
    pub writers: u32,
    /// Length of the judged part, in seconds.
    pub window_s: f64,
    /// Documents or operations per second.
    pub throughput: f64,
    /// Response time; closed, so it is the service time.
    pub response_ns: Latency,
    /// Operations that failed.
    pub errors: u64,
}
