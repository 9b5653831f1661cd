//! Serves workflows over HTTP, and runs their instances.
//!
//! * [`store`]: the store, in MongoDB or PostgreSQL; [`metrics`]: its operations and calls, counted.
//! * [`calls`]: the functions and HTTP services that steps call.
//! * [`engine`]: a client of the store, with or without a worker.
//! * [`examples`]: the shipped definitions; [`view`]: instances as they are shown.
//! * [`api`]: the HTTP endpoints; [`settings`]: the settings file; [`serve`]: starts the service.

pub mod metrics;
pub mod store;

pub mod calls;

pub mod engine;
pub mod examples;
pub mod view;

pub mod api;
pub mod scopes;
pub mod serve;
pub mod settings;

mod pages;
mod routes;
