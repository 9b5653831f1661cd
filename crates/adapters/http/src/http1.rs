//! Our own HTTP/1.1 client: one connection, one request in flight, and no allocation once its buffers have grown.

pub(crate) use connection::Connection;
pub(crate) use framing::{Ask, Malformed, header};

mod connection;
mod framing;
mod incoming;
