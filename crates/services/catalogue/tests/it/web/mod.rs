//! Tests the catalogue over HTTP.

mod bench;
mod client;

mod access;
mod clients;
mod routes;
mod stream;
