//! One connection: bytes out, an answer in, within a time limit.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::framing::{Ask, Malformed};
use super::incoming::Incoming;
use crate::deadline::Deadline;
use crate::stream::Stream;

/// Why an exchange failed. After any of these the connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// No answer in time.
    #[error("no answer within the time limit")]
    Timeout,
    /// The connection broke.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// The answer made no sense.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The server said that it did not try (HTTP/2 only).
    #[error("the server refused the stream")]
    NotTried,
    /// The server ends the connection and did not take the request, which may go by another (HTTP/2 only).
    #[error("the server ends the connection and takes no more requests on it")]
    Leaving,
}

/// An open connection. One request is in flight at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) incoming: Incoming,
    deadline: Deadline,
    state: State,
    requests_left: u64,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next request may be sent.
    Idle,
    /// A request is on its way, failed there, or was the last. A future that is dropped in the middle leaves this behind.
    Spent,
}

impl Connection {
    /// For so many requests; each may take as long as `limit`.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn new(
        stream: Stream,
        limit: Duration,
        answer_bytes_max: u64,
        requests_max: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            stream,
            incoming: Incoming::new(answer_bytes_max),
            deadline: Deadline::new(limit)?,
            state: State::Idle,
            requests_left: requests_max,
            sent: 0,
        })
    }

    /// Whether it must be opened anew.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Spent
    }

    /// Bytes of the last request that were handed over, also on failure.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent as u64
    }

    /// Whether the server has ended the connection, or said something that nobody asked for, since the last answer. As a
    /// rule this asks no kernel: the runtime knows whether there is something to read.
    pub(crate) async fn is_stale(&mut self) -> bool {
        self.incoming.begin(Ask { is_head: false, keep_body: false });
        poll_fn(|cx| Poll::Ready(self.stream.poll_into(cx, self.incoming.room()).is_ready())).await
    }

    /// Sends a request and collects its answer. `sent` and what was received count also on failure.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn exchange(&mut self, request: &[u8], ask: Ask) -> Result<(), Fault> {
        self.state = State::Spent;
        self.sent = 0;
        self.requests_left = self.requests_left.saturating_sub(1);
        self.incoming.begin(ask);
        self.deadline.start();
        let done = poll_fn(|cx| self.poll_exchange(cx, request)).await;
        self.deadline.end();
        done?;
        if self.sent == request.len() && self.incoming.keeps_alive() && self.requests_left > 0 {
            self.state = State::Idle;
        }
        Ok(())
    }

    /// Sends what is left and reads what is there. A server may answer before it has read everything, and then close the
    /// connection: its answer counts.
    fn poll_exchange(&mut self, cx: &mut Context<'_>, request: &[u8]) -> Poll<Result<(), Fault>> {
        let sending =
            if self.sent < request.len() { self.poll_send(cx, request) } else { Poll::Ready(Ok(())) };
        match (self.poll_receive(cx), sending) {
            (Poll::Ready(Ok(())), _) => Poll::Ready(Ok(())),
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
            (Poll::Ready(Err(error)), _) => Poll::Ready(Err(error)),
            (Poll::Pending, _) => self.deadline.poll(cx).map(|()| Err(Fault::Timeout)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, request: &[u8]) -> Poll<io::Result<()>> {
        while self.sent < request.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &request[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while !self.incoming.is_complete()? {
            match ready!(self.stream.poll_into(cx, self.incoming.room())) {
                Ok(0) if self.incoming.close() => break,
                Ok(0) => return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())),
                Ok(count) => self.incoming.advance(count),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Poll::Ready(Ok(()))
    }
}
