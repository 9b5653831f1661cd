//! Bytes out, a reply in, within a time limit.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::frame;
use crate::inbox::Inbox;
use crate::stream::Stream;
use crate::transport::Fault;

/// A stream with the buffer of the reply and the time limit.
pub(crate) struct Pipe {
    stream: Stream,
    pub(crate) inbox: Inbox,
    deadline: Deadline,
}

impl Pipe {
    pub(crate) fn new(stream: Stream, limit: Option<Duration>) -> Self {
        Pipe { stream, inbox: Inbox::new(frame::LEN_MAX + frame::SLACK), deadline: Deadline::new(limit) }
    }

    /// Sets the time limit of each command from now on.
    pub(crate) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.deadline = Deadline::new(limit);
    }

    /// The time limit of a command.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.deadline.limit()
    }

    /// A command starts.
    pub(crate) fn begin(&mut self) {
        self.inbox.clear();
        self.deadline.start();
    }

    /// The command ended.
    pub(crate) fn end(&mut self) {
        self.deadline.end();
    }

    /// Sends bytes. `sent` counts those handed over, also on failure.
    pub(crate) async fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<(), Fault> {
        poll_fn(|cx| self.poll_send(cx, bytes, sent)).await
    }

    /// Sends bytes and collects a reply in the inbox. `sent` counts those handed over, also on failure.
    pub(crate) async fn exchange(&mut self, bytes: &[u8], sent: &mut usize) -> Result<(), Fault> {
        poll_fn(|cx| {
            if *sent < bytes.len() {
                ready!(self.poll_send(cx, bytes, sent))?;
            }
            self.poll_receive(cx)
        })
        .await?;
        Ok(self.inbox.open()?)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8], sent: &mut usize) -> Poll<Result<(), Fault>> {
        while *sent < bytes.len() {
            match self.stream.poll_write(cx, &bytes[*sent..]) {
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
