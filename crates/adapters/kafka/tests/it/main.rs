//! Tests the Kafka source and sinks against a real broker, which is started once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broker_down;
mod clocks;
mod crashes;
mod damaged;
mod dead_letters;
mod exactly_once;
mod group;
mod kills;
mod refusals;
mod round_trip;
mod topics;

mod support;
mod unwritten_batch;
