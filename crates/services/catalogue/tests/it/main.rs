//! Tests the catalogue against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod crash;
mod datasets;
mod fill;
mod keys;
mod lists;
mod plans;
mod samples;
mod search;
mod server;
mod web;
