//! One request out, one reply in, within a time limit.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::frame::{self, Malformed};
use crate::inbox::Inbox;
use crate::stream::Stream;

/// Why an exchange failed. After any of these the stream is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("no answer within the time limit")]
    Timeout,
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// A stream with the buffer of the reply, and whether a command is in flight.
pub(crate) struct Transport {
    stream: Stream,
    inbox: Inbox,
    deadline: Deadline,
    request_id: i32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request may be sent.
    Idle,
    /// A request is on its way, or failed there. A future that is dropped in the middle leaves this behind.
    Busy,
}

impl Transport {
    pub(crate) fn new(stream: Stream, limit: Option<Duration>) -> Self {
        Transport {
            stream,
            inbox: Inbox::new(frame::LEN_MAX + frame::SLACK),
            deadline: Deadline::new(limit),
            request_id: 0,
            state: State::Idle,
        }
    }

    /// Takes replies of up to `len_max` bytes from now on.
    pub(crate) fn limit_reply(&mut self, len_max: usize) {
        self.inbox.limit(len_max);
    }

    /// Sets the time limit of each command from now on.
    pub(crate) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.deadline = Deadline::new(limit);
    }

    /// The time limit of a command.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.deadline.limit()
    }

    /// An exchange failed or was abandoned: what arrives next belongs to no one.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Busy
    }

    /// A fresh request id.
    pub(crate) fn next_request_id(&mut self) -> i32 {
        self.request_id = self.request_id.wrapping_add(1);
        self.request_id
    }

    /// Sends a request that nobody answers. `sent` counts the bytes handed over, also on failure.
    pub(crate) async fn post(&mut self, request: &[u8], sent: &mut usize) -> Result<(), Fault> {
        self.begin();
        poll_fn(|cx| self.poll_send(cx, request, sent)).await?;
        self.end();
        Ok(())
    }

    /// Sends a request and collects its reply: see [`Transport::reply`]. `sent` counts the bytes handed over, also on
    /// failure.
    pub(crate) async fn exchange(&mut self, request: &[u8], sent: &mut usize) -> Result<(), Fault> {
        self.begin();
        poll_fn(|cx| {
            if *sent < request.len() {
                ready!(self.poll_send(cx, request, sent))?;
            }
            self.poll_receive(cx)
        })
        .await?;
        self.end();
        Ok(())
    }

    /// The reply that arrived, whole.
    pub(crate) fn reply(&self) -> &[u8] {
        self.inbox.reply()
    }

    /// Gives the reply away in exchange for another buffer.
    pub(crate) fn swap_reply(&mut self, buffer: &mut Vec<u8>) {
        self.inbox.swap(buffer);
    }

    /// The reply made no sense: nothing more may be read from this stream.
    pub(crate) fn abandon(&mut self) {
        self.state = State::Busy;
    }

    fn begin(&mut self) {
        self.state = State::Busy;
        self.inbox.clear();
        self.deadline.start();
    }

    fn end(&mut self) {
        self.state = State::Idle;
        self.deadline.end();
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        request: &[u8],
        sent: &mut usize,
    ) -> Poll<Result<(), Fault>> {
        while *sent < request.len() {
            match self.stream.poll_write(cx, &request[*sent..]) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
                }
                Poll::Ready(Ok(count)) => *sent += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return self.poll_deadline(cx),
            }
        }
        match self.stream.poll_flush(cx) {
            Poll::Pending => self.poll_deadline(cx),
            Poll::Ready(flushed) => Poll::Ready(flushed.map_err(Fault::from)),
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while self.inbox.complete()?.is_none() {
            match self.stream.poll_read(cx, self.inbox.room()) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
                }
                Poll::Ready(Ok(count)) => self.inbox.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return self.poll_deadline(cx),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.deadline.poll(cx).map(|()| Err(Fault::Timeout))
    }
}
