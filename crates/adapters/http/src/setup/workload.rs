//! Defines the port for bodies that no template can make: those of a workload.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Generates the bodies of an operation's requests. Each depends only on its number, and not on the worker or the time.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Appends the body of request `number`, which is JSON.
    fn body(&self, number: u64, out: &mut Vec<u8>);
}

/// The inputs of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadContext {
    /// The seed; each operation has another.
    pub seed: u64,
    /// The run's start, in milliseconds since 1970.
    pub start_ms: i64,
}

/// Builds the workload of a scenario from its settings, or says what is wrong with them.
pub type Workloads<'a> =
    &'a dyn Fn(&Map<String, Value>, WorkloadContext) -> Result<Arc<dyn Workload>, String>;

/// Knows no workload.
pub(super) fn none(typed: &Map<String, Value>, _: WorkloadContext) -> Result<Arc<dyn Workload>, String> {
    let names: Vec<_> = typed.keys().map(String::as_str).collect();
    Err(format!("there is no workload `{}` here", names.join(", ")))
}
