//! Tests the engine in simulation: a virtual clock, a scripted target, exact results.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backlog;
mod churn;
mod closed;
mod early;
mod engine;
mod grace;
mod k6;
mod line;
mod live;
mod processes;
mod scripted;
mod shards;
mod worker;
