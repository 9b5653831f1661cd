//! The service over HTTP: one file an endpoint in [`api`], and the gate that every request passes.

pub mod api;
pub mod endpoint;
pub mod routes;

pub(crate) mod gate;

pub mod problem;
pub mod query;
pub mod reply;

pub mod security;

mod body;
mod rate;
mod strict;

pub mod metrics;
mod ready;
mod service;

pub use service::{Parts, Service};
