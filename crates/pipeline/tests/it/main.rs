//! The engine with scripted sources and sinks: exact counts, nothing slept for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod back_pressure;
mod conservation;
mod failures;
mod files;
mod guarantees;
mod scripted;
