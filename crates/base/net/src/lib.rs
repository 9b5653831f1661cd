//! Opens TCP, TLS and Unix-socket streams, and sends and receives on them within a time limit.
//!
//! [`connect`] and [`connect_unix`] open a [`Stream`], the first also through a [`SocksProxy`]. A [`Channel`]
//! adds a time limit for each exchange. It sends bytes from the caller's buffer, and receives bytes into a
//! [`Receive`]. A protocol composes these steps without allocations. The crate needs a tokio runtime with IO
//! and time enabled.
//!
//! This crate must not know any protocol above TLS, load or scenarios.

pub use channel::{Channel, ExchangeError, Receive};
pub use connect::{ConnectError, Destination, connect, connect_unix, secure, tcp};
pub use deadline::Deadline;
pub use socks::{SOCKS_PORT, SocksProxy};
pub use stream::Stream;
pub use tls::{Tls, TlsError, TlsSettings, Trust};
pub use tokio_rustls::client::TlsStream;

mod connect;
mod socks;

mod channel;
mod deadline;

mod stream;
mod tls;
