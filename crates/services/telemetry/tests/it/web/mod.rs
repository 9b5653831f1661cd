//! Tests the service over HTTP.

mod bench;
mod client;
mod described;

mod refused;
mod routes;
mod security;

mod away;
pub mod feeds;
mod limits;
mod shutdown;
