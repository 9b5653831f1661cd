//! Serves HTTP without knowing endpoints: listener, TLS, token security, limits, problem bodies, metrics,
//! health, OpenAPI and graceful stop.
//!
//! A [`Service`] is a value: its description ([`About`]), its [`Routes`] and its [`State`].
//! [`Listener::serve`] runs it:
//!
//! * [`Product`]: the program around a service, for `plimsoll serve`.
//! * [`Endpoint`]: one method of one path; [`Routes`] lists them; every service also has `/healthz`, `/readyz`, `/metrics`
//!   and `/openapi.json`.
//! * [`settings`]: the sections `limits`, `security`, `tls` and `cors` of a settings file, and the listener's rules; [`mod@part`]: a section
//!   that is read into two structs.
//! * [`Context`]: the shared state of all requests: state, limits, clock, memory budget.
//! * [`Problem`]: a refusal; [`reply`] makes the other answers; [`mod@page`]: frames pages for browsers.
//! * [`query`], [`body`], [`lines`], [`strict_json`], [`name`], [`timestamp`]: parse requests strictly.
//! * [`budget`]: limits memory; [`blocking`]: runs CPU-bound work on other threads.

pub mod budget;
pub mod clock;

pub mod blocking;

pub mod name;
pub mod redact;
pub mod span;
pub mod timestamp;

pub mod cors;
pub mod limits;
pub mod part;
pub mod security;
pub mod settings;
pub mod tls;

pub mod body;
pub mod lines;
pub mod page;
pub mod problem;
pub mod query;
pub mod reply;
pub mod strict_json;

pub mod metrics;
pub mod openapi;

mod context;
mod endpoint;
mod product;
mod routes;

mod arrivals;
mod middleware;
mod rate_limit;
mod readiness;
mod sending;
mod server;
mod standard;

pub use body::{Media, Takes};
pub use budget::{Budget, BudgetError, Reservation};
pub use clock::Clock;
pub use context::{Context, State};
pub use endpoint::{Call, Endpoint, Identifies};
pub use limits::{Limits, Rate};
pub use lines::{Line, Lines};
pub use openapi::About;
pub use problem::{InvalidField, Kind, Problem};
pub use product::{DatabaseClient, Product, StartError};
pub use rate_limit::RateLimiter;
pub use reply::Answer;
pub use routes::{Route, Routes};
pub use security::Scope;
pub use server::{Ending, ListenError, Listener, Running, Service, document};
pub use settings::Http;
pub use span::Span;
