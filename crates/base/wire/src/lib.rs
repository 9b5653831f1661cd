//! The lean MongoDB client: frames, handshake, authentication, TLS, one command in flight per connection.
//!
//! A [`Connection`] runs on a tokio runtime with IO and time enabled and does one thing at a time. Its hot paths,
//! [`Connection::write`], [`Connection::find`] and [`Connection::call`], reuse the caller's buffers: once these have grown, an operation
//! allocates nothing, sends one small frame with one system call and reads the reply with another. Everything else
//! (`connect`, `command`) is the cold path and may allocate. Messages are compressed if [`ConnectOptions::compression`]
//! names a compressor that the server knows.
//!
//! It does not know what is load, what is measured, or which server of a topology to talk to.

pub use address::{Address, AddressError};
pub use call::{Call, CallReply};
pub use class::Class;
pub use compress::Compressor;
pub use connect::ConnectOptions;
pub use connection::Connection;
pub use credential::Credential;
pub use error::{Error, ServerError, TooLarge};
pub use find::{Cursor, Documents, FindReply, FindRequest, FindSpec, ReadPreference};
pub use frame::{Malformed, Message};
pub use hello::{Hello, Limits};
pub use mechanism::Mechanism;
pub use outcome::{Cause, Outcome, Span};
pub use tls::{Tls, Trust};
pub use write::{W, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec};

mod connect;
mod connection;

mod authenticate;
mod credential;
mod mechanism;
mod scram;

mod call;
mod find;
mod write;

mod class;
mod outcome;

mod address;
mod error;
mod hello;
mod tls;

mod transport;

mod compress;
mod deadline;
mod inbox;
mod pipe;
mod stream;

pub mod frame;
pub mod untrusted;

mod element;
mod encode;
