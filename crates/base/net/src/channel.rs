//! Moves the bytes of one exchange at a time over a stream, within a time limit.
//!
//! The steps are poll functions: a protocol combines them in one future and decides whether it reads while it writes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;

use crate::deadline::Deadline;
use crate::stream::Stream;

/// Collects one reply as its bytes arrive.
pub trait Receive {
    /// The error of a reply that breaks the protocol.
    type Error;

    /// Whether the reply is complete. If not, [`Receive::room`] has space for more bytes.
    ///
    /// # Errors
    /// The bytes are not a reply.
    fn is_complete(&mut self) -> Result<bool, Self::Error>;

    /// The space for the next bytes; never empty after [`Receive::is_complete`] returned false.
    fn room(&mut self) -> &mut [u8];

    /// Notes that `count` bytes were written to the space.
    fn advance(&mut self, count: usize);

    /// Notes that the peer closed the connection. Returns whether this completes the reply.
    fn close(&mut self) -> bool;
}

/// The failure of an exchange. Close the connection after any of these.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError<E> {
    /// The reply was not complete in time.
    #[error("no answer within the time limit")]
    Timeout,
    /// The connection broke.
    #[error("{0}")]
    Lost(io::Error),
    /// The reply breaks the protocol.
    #[error("{0}")]
    Malformed(E),
}

/// A stream with a time limit for the exchange in flight.
#[derive(Debug)]
pub struct Channel {
    stream: Stream,
    deadline: Deadline,
    /// Whether the stream has no buffered bytes to flush.
    is_flushed: bool,
}

impl Channel {
    /// Wraps an open stream, without a time limit.
    pub fn new(stream: Stream) -> Self {
        Channel { stream, deadline: Deadline::default(), is_flushed: true }
    }

    /// Sets the time limit of every exchange from now on; `None` waits without limit.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn set_limit(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.deadline = Deadline::new(limit)?;
        Ok(())
    }

    /// The time limit of an exchange; `None` if there is none.
    pub fn limit(&self) -> Option<Duration> {
        self.deadline.limit()
    }

    /// Starts the time of an exchange.
    #[inline]
    pub fn start(&self) {
        self.deadline.start();
    }

    /// Stops the time of an exchange.
    #[inline]
    pub fn end(&self) {
        self.deadline.end();
    }

    /// Sends the rest of `bytes`. `sent` counts the bytes handed over, also on failure.
    #[inline]
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *sent < bytes.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[*sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *sent += count,
            }
            self.is_flushed = false;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads until `into` is complete.
    #[inline]
    pub fn poll_receive<R: Receive>(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut R,
    ) -> Poll<Result<(), ExchangeError<R::Error>>> {
        while !into.is_complete().map_err(ExchangeError::Malformed)? {
            match ready!(self.stream.poll_read_into(cx, into.room())) {
                Ok(0) if into.close() => break,
                Ok(0) => return Poll::Ready(Err(ExchangeError::Lost(io::ErrorKind::UnexpectedEof.into()))),
                Ok(count) => into.advance(count),
                Err(error) => return Poll::Ready(Err(ExchangeError::Lost(error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready with [`ExchangeError::Timeout`] once the exchange is out of time.
    #[inline]
    pub fn poll_timeout<E>(&self, cx: &Context<'_>) -> Poll<Result<(), ExchangeError<E>>> {
        self.deadline.poll(cx).map(|()| Err(ExchangeError::Timeout))
    }

    /// Whether the peer closed the idle connection, or sent bytes without a request. The bytes are lost.
    ///
    /// Usually this needs no system call: the runtime knows whether the socket is readable.
    #[inline]
    pub fn poll_is_stale<R: Receive>(&mut self, cx: &mut Context<'_>, room: &mut R) -> bool {
        self.stream.poll_read_into(cx, room.room()).is_ready()
    }
}
