//! Tests the parts of the service against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activities;
mod concern;
mod fill;
mod plans;
mod query_coverage;
mod readings;
mod server;
mod web;
