//! Defines the port for bodies that templates cannot express: workloads generate them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Generates the bodies of an operation's requests. Each depends only on its number, not on the worker or the time.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Appends the JSON body of request `number`.
    fn body(&self, number: u64, out: &mut Vec<u8>);
}

/// The inputs of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadContext {
    /// The seed, different for each operation.
    pub seed: u64,
    /// The run's start, in milliseconds since 1970.
    pub start_ms: i64,
}

/// Builds the workload of a scenario from its settings, or explains why they are invalid.
pub type Workloads<'a> =
    &'a dyn Fn(&Map<String, Value>, WorkloadContext) -> Result<Arc<dyn Workload>, String>;

/// Refuses every workload.
pub(super) fn none(typed: &Map<String, Value>, _: WorkloadContext) -> Result<Arc<dyn Workload>, String> {
    let names: Vec<_> = typed.keys().map(String::as_str).collect();
    Err(format!("there is no workload `{}` here", names.join(", ")))
}
