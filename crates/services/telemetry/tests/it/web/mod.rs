//! Tests the service over HTTP.

mod bench;
mod client;
mod openapi_check;

mod refused;
mod routes;
mod security;

mod database_down;
pub mod feeds;
mod limits;
mod shutdown;
