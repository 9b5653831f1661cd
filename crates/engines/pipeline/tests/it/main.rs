//! Tests the engine with scripted sources and sinks: exact counts, without sleeps.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assignments;
mod at_most_once;
mod back_pressure;
mod bad_input;
mod clocks;
mod combinations;
mod conservation;
mod failing_source;
mod files;
mod guarantees;
mod late_partitions;
mod outcome;
mod panics;
mod payloads;
mod refused_event;
mod replay;
mod retries;
mod scripted;
mod security;
mod transactions;
mod waiting;
