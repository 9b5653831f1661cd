//! What the servers in this process share: a listening socket, a thread a connection, frames in and out, and commands
//! that every server must know. What a command does is a [`Service`]'s own business.

pub(crate) use gate::Gate;
pub(crate) use listener::Listener;
pub(crate) use request::{Namespace, Request};

#[cfg(test)]
pub(crate) mod client;
pub(crate) mod common;
mod gate;
mod inbox;
mod listener;
pub(crate) mod reply;
mod request;
mod session;

/// Answers commands.
pub(crate) trait Service: Send + Sync + 'static {
    /// Appends the answer, exactly one BSON document, to `out`.
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>);
}

/// The largest BSON document, in bytes: MongoDB's `maxBsonObjectSize`.
pub(crate) const DOCUMENT_LEN_MAX: usize = 16 * 1024 * 1024;

/// A server in this process could not be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "no port of the loopback address can be listened on ({0}): close programs that hold many connections"
)]
pub struct Error(#[from] pub std::io::Error);
