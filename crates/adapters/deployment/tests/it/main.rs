//! Tests the administration of a deployment against scripted servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collection;
mod inspect;
mod replica_set;
mod socks;
