//! Tests the catalogue over HTTP.

mod bench;
mod client;

mod access;
mod attachments;
mod blocks;
mod clients;
mod faults;
mod files;
mod history;
mod issuer;
mod oidc;
mod pages;
mod relations;
mod routes;
mod search;
mod stream;
