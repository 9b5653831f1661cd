//! Puts HTTP behind the load engine's port: requests from templates, checked answers, and the null HTTP server.
//!
//! In reading order: the scenario's section ([`scenario`]), its compiled form ([`setup`]), the check before the load
//! ([`preflight`]), the load target ([`target`]), its counters ([`counts`]), the audit of its documents
//! ([`read_back`]), and the null server ([`null`]). Below them: the
//! preparation of a request (`prepared`, `document_numbers`, `sent_documents`, `json`), the two clients (`http1`, our own, and `http2`), and
//! the classification of answers (`classify`).
//!
//! A request over HTTP/1.1 allocates nothing once the buffers have grown. It costs one write and, as a rule, one read.
//!
//! This crate must not know MongoDB, reports or the other engines.

pub mod scenario;
pub mod setup;

pub mod preflight;
pub mod target;

pub mod counts;

pub mod read_back;

pub mod null;

mod document_numbers;
mod prepared;
mod sent_documents;

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
