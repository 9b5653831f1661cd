//! HTTP behind the load engine's port: requests from templates, checked answers, and the null HTTP server.
//!
//! In reading order: what a scenario may say ([`scenario`]), what it means ([`setup`]), whether the service can be reached
//! ([`preflight`]), the load target ([`target`]), what it counted besides ([`counts`]), and the server that answers at once
//! ([`null`]). Below them: how a request is made ready (`prepared`, `document_numbers`, `json`), the two clients (`http1`, our own, and
//! `http2`), and what an answer says of the operation (`classify`).
//!
//! A request over HTTP/1.1 allocates nothing once the buffers have grown, costs one write and, as a rule, one read.
//!
//! It must not know MongoDB, reports or the other engines.

pub mod scenario;
pub mod setup;

pub mod preflight;
pub mod target;

pub mod counts;

pub mod null;

mod document_numbers;
mod prepared;

mod classify;
mod login;
mod plaintext_probe;

mod connection;
mod http1;
mod http2;

mod answer;
mod connect;
mod fault;

mod json;

pub use connect::Error as ConnectError;
pub use null::Server as NullServer;
pub use scenario::{Request, Section};
pub use setup::{Context, Setup};
pub use target::Http;
