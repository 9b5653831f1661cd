//! Shares helpers among this crate's unit tests.

use std::path::Path;
use std::sync::Arc;

use plimsoll_ledger::{Allocation, Run, State};

use crate::keys::Keys;
use crate::operation_builder::{OperationBuilder, PendingWrite};
use crate::scenario::{Operation, Section};
use crate::setup::{Context, Error, Purpose, Setup};
use crate::worker_ledger::WorkerLedger;

/// Compiles a section and its operations, both given as JSON.
pub fn setup(section: &str, operations: &[(&str, &str)]) -> Result<Setup, Error> {
    let section: Section = serde_json::from_str(section).unwrap();
    let operation = |(name, typed): &(&str, &str)| {
        ((*name).to_owned(), serde_json::from_str::<Operation>(typed).unwrap())
    };
    let operations: Vec<_> = operations.iter().map(operation).collect();
    let context = Context { seed: 1, run: Run { time_s: 1, tag: [1, 2, 3] }, base: Path::new(".") };
    Setup::build(&section, &operations, context)
}

/// Creates a builder with `count` acknowledged small documents.
pub fn builder(count: u64) -> OperationBuilder {
    let section = r#"{"collection": "d.c", "document": {"t": {"$text": {"bytes": 20}}}}"#;
    builder_of(setup(section, &[("insert", r#"{"insert": {}}"#)]).unwrap(), count)
}

/// Creates a builder with `count` acknowledged documents of a setup.
pub fn builder_of(setup: Setup, count: u64) -> OperationBuilder {
    let mut ledger = WorkerLedger::new(Allocation::new(4096, 1, None).unwrap(), 0, None);
    let numbers = ledger.take(count).unwrap();
    ledger.settle(numbers, State::Acknowledged);
    OperationBuilder::new(Arc::new(setup), ledger)
}

/// Picks the first document for a replacement, which is noted as sent.
pub fn pending_replacement(builder: &OperationBuilder) -> (u64, Option<PendingWrite>) {
    let picked = builder.ledger().pick(&Keys::Uniform, Purpose::Replace, |_| 0).unwrap();
    (picked.number, picked.change.map(|change| PendingWrite::of(picked.number, change)))
}
