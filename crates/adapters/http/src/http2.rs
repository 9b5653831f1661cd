//! Speaks HTTP/2 through the `h2` crate: several slots share a connection, with one stream in flight each.
//!
//! It allocates for each request, and the measured cost includes that.

pub(crate) use session::Pool;
pub(crate) use slot::Slot;

mod counted;
mod session;
mod slot;
