//! Shares a plan of inserts, and servers that accept them, among the tests of the targets.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use plimsoll_deployment::Deployment;
use plimsoll_ledger::{Allocation, Run};
use plimsoll_mongo::scenario::{Operation, Section};
use plimsoll_mongo::setup::{Context, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_wire::Address;

/// The time limit of each operation, far above the time that any test needs.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A plan of one operation.
pub fn setup(operation: &str) -> Arc<Setup> {
    Arc::new(plan("{}", &[("operation", operation)]))
}

/// A plan of several operations; `more` are further keys of its section.
pub fn plan(more: &str, operations: &[(&str, &str)]) -> Setup {
    let mut section = serde_json::json!({"collection": "d.c", "document": {"a": 1}});
    let more: serde_json::Map<_, _> = serde_json::from_str(more).unwrap();
    section.as_object_mut().unwrap().extend(more);
    let section: Section = serde_json::from_value(section).unwrap();
    let operation = |(name, typed): &(&str, &str)| {
        ((*name).to_owned(), serde_json::from_str::<Operation>(typed).unwrap())
    };
    let operations: Vec<_> = operations.iter().map(operation).collect();
    let run = Run { time_s: 1, tag: [1, 2, 3] };
    let context = Context { seed: 1, run, base: Path::new(".") };
    Setup::build(&section, &operations, context).unwrap()
}

/// The ledger of the only worker.
pub fn ledger(setup: &Setup) -> WorkerLedger {
    WorkerLedger::new(Allocation::new(setup.block(), 1, None).unwrap(), 0, None)
}

/// A server on this machine.
pub fn deployment(port: u16) -> Arc<Deployment> {
    Arc::new(Deployment::single(Address { host: "127.0.0.1".into(), port }, TIMEOUT))
}

pub fn name(command: &Document) -> &str {
    command.keys().next().map_or("", String::as_str)
}

/// The answer to an insert: all its documents are acknowledged.
pub fn taken(command: &Document) -> Document {
    let documents = command.get_array("documents").map_or(0, Vec::len);
    doc! {"n": documents as i32, "ok": 1.0}
}

/// Runs a test on a runtime like a worker's.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}
