//! Tests the adapter with a real PostgreSQL server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;
mod workflow;
