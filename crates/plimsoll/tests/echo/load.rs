//! Describes the service to scenarios: its section needs no database, and its workload counts.

use std::sync::Arc;

use plimsoll::systems::{ServiceKind, WorkloadResult};
use plimsoll_http::setup::{Workload, WorkloadContext};
use serde_json::Value;

/// The service in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct EchoLoad;

impl ServiceKind for EchoLoad {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn has_database(&self) -> bool {
        false
    }

    fn workload(&self, name: &str, settings: &Value, _: WorkloadContext) -> Option<WorkloadResult> {
        let counter = || settings["from"].as_u64().ok_or_else(|| "counter.from: give a number".to_owned());
        (name == "counter").then(|| Ok(Arc::new(Counter { from: counter()? }) as Arc<dyn Workload>))
    }
}

/// Bodies `{"number": from}`, `{"number": from + 1}`, …
#[derive(Clone, Copy, Debug)]
struct Counter {
    from: u64,
}

impl Workload for Counter {
    fn body(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{{\"number\": {}}}", self.from.saturating_add(number)).as_bytes());
    }
}
