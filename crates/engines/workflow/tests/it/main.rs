//! Tests whole definitions, random lives of instances, and simulated workers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;
mod edges;
mod examples;
mod late_scan;
mod life;
mod lives;
mod simulation;
mod workers;
