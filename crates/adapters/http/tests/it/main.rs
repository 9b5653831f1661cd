//! Tests the load target against real servers: hyper as an independent server with and without TLS, over HTTP/1.1 and HTTP/2, the
//! null server under the engine, and servers that break the protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod raw;
mod read_back;
mod service;

mod allocations;
mod engine;
mod go_away;
mod hostile;
mod login;
mod preflight;
mod requests;
