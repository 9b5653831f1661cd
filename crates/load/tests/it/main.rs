//! The engine in simulation: a virtual clock, a scripted target, exact answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod engine;
mod line;
mod scripted;
mod worker;
