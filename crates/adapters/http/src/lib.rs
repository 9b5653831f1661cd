//! HTTP behind the load engine's port: requests from templates, checked answers, and the null HTTP server.
//!
//! In reading order: what a scenario may say ([`scenario`]), what it means ([`setup`]), whether the service can be reached
//! ([`reach`]), the load target ([`target`]), what it counted besides ([`counts`]), and the server that answers at once
//! ([`null`]). Below them: how a request is made ready (`prepared`, `books`, `json`), the two clients (`http1`, our own, and
//! `http2`), and what an answer says of the operation (`judge`).
//!
//! A request over HTTP/1.1 allocates nothing once the buffers have grown, costs one write and, as a rule, one read.
//!
//! It must not know MongoDB, reports or the other engines.

pub mod scenario;
pub mod setup;

pub mod reach;
pub mod target;

pub mod counts;

pub mod null;

mod books;
mod prepared;

mod judge;
mod login;

mod http1;
mod http2;
mod wire;

mod clear;
mod connect;
mod deadline;
mod stream;
mod tls;

mod json;

pub use connect::Error as ConnectError;
pub use null::Server as NullServer;
pub use scenario::{Request, Section};
pub use setup::{Context, Setup};
pub use target::Http;
