//! Tests the MongoDB adapter against scripted and real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod driver;
mod insert;
mod sharding;
mod spread;
mod topology;
mod transaction;

mod scripts;
