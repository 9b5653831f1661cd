//! Sends MongoDB commands, one in flight per connection, at the least cost: frames, handshake, authentication, compression.
//!
//! A [`Connection`] runs on a tokio runtime with IO and time enabled. Its hot paths, [`Connection::write`],
//! [`Connection::find`] and [`Connection::call`], reuse the caller's buffers. Once these have grown, an operation allocates
//! nothing, sends a small frame with one system call and reads the reply with another. The cold paths (`connect`,
//! `command`) may allocate. Messages are compressed if [`ConnectOptions::compression`] names a compressor that the server
//! supports.
//!
//! This crate must not know load, measurements, or the servers of a topology.

pub use address::{Address, AddressError};
pub use call::{Call, CallReply};
pub use class::Class;
pub use compress::Compressor;
pub use connection::Connection;
pub use credential::{Credential, Proof};
pub use error::{Error, Malformed, ServerError, TooLarge};
pub use find::{Cursor, Documents, FindReply, FindRequest, FindSpec};
pub use frame::Message;
pub use hello::{Hello, Limits};
pub use mechanism::Mechanism;
pub use options::ConnectOptions;
pub use outcome::{Cause, Outcome, Span};
pub use plimsoll_net::{SOCKS_PORT, SocksProxy, Tls, TlsError, TlsSettings, Trust};
pub use read_preference::{ReadMode, ReadPreference};
pub use retryable::RetryAdvice;
pub use write::{W, WriteBatch, WriteConcern, WriteFailure, WriteKind, WriteReply, WriteSpec};

mod connect;
mod connection;

mod authenticate;
mod credential;
mod mechanism;
mod scram;

mod call;
mod find;
mod read_preference;
mod write;

mod class;
mod outcome;
mod retryable;

mod address;
mod error;
mod hello;
mod options;

mod transport;

mod compress;
mod reply_buffer;

pub mod frame;
pub mod untrusted;
