//! Implements the shared part of the in-process servers: a listening socket, a thread for each connection,
//! frames in and out, and the commands that every server supports. A [`Service`] answers the other commands.

pub(crate) use answer_delay::AnswerDelay;
pub(crate) use listener::Listener;
pub(crate) use request::{Namespace, Request};

mod answer_delay;
#[cfg(test)]
pub(crate) mod client;
pub(crate) mod common;
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

/// A server in this process cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on a port of the loopback address ({0}): close programs that hold many connections")]
pub struct Error(#[from] pub std::io::Error);
