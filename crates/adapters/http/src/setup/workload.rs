//! Bodies that no template can make: those of a workload, which somebody else knows.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Makes the bodies of an operation's requests. Each is a function of its number alone, so that it makes no difference which
/// worker sends it, and when.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Appends the body of request `number`, which is JSON.
    fn body(&self, number: u64, out: &mut Vec<u8>);
}

/// What a workload is made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Seed of everything that is drawn; each operation has its own.
    pub seed: u64,
    /// The run's start, in milliseconds since 1970.
    pub start_ms: i64,
}

/// Makes the workload that a scenario names, by its typed settings, or says what is wrong with them.
pub type Workloads<'a> = &'a dyn Fn(&Map<String, Value>, Ground) -> Result<Arc<dyn Workload>, String>;

/// For who knows no workload.
pub(super) fn none(typed: &Map<String, Value>, _: Ground) -> Result<Arc<dyn Workload>, String> {
    let names: Vec<_> = typed.keys().map(String::as_str).collect();
    Err(format!("there is no workload `{}` here", names.join(", ")))
}
