//! The service over HTTP, as a client sees it.

mod bench;
mod client;
mod described;

mod refused;
mod routes;
mod security;

mod feeds;
mod limits;
mod plans;
mod shutdown;
