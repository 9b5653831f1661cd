//! Tests the MongoDB adapter against scripted and real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
mod audit;
mod churn;
mod concerns;
mod copies;
mod driver;
mod election;
mod insert;
mod reads;
mod retries;
mod sharded;
mod sharding;
mod spread;
mod topology;
mod transaction;

mod loads;
mod scripts;
