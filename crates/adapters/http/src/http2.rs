//! HTTP/2 by way of the `h2` crate: each connection of the load is a stream at a time of a connection that several share.
//!
//! It allocates for each request; what it costs is measured, not hidden.

pub(crate) use session::Pool;
pub(crate) use slot::Slot;

mod counted;
mod session;
mod slot;
