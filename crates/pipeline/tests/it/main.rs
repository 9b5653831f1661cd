//! The engine with scripted sources and sinks: exact counts, nothing slept for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assignments;
mod at_most_once;
mod back_pressure;
mod bad_input;
mod conservation;
mod files;
mod guarantees;
mod outcome;
mod panics;
mod poison;
mod replay;
mod retries;
mod scripted;
mod transactions;
