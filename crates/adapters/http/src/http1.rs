//! Speaks HTTP/1.1: one request in flight per connection, and no allocation once the buffers have grown.

pub(crate) use connection::Connection;
pub(crate) use framing::{ReadOptions, header};

mod connection;
mod framing;
mod incoming;
