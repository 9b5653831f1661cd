//! A stream that does not wait for ever: for a client that says nothing, or does not read its answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose reads and writes each fail when nothing has moved for long enough: at least the time that was given, and
/// less than twice that. So a timer is started once for many requests.
pub(super) struct Patient<S> {
    stream: S,
    reading: Wait,
    writing: Wait,
}

struct Wait {
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether anything has moved since the timer was started.
    moved: bool,
}

impl Wait {
    const fn new(patience: Duration) -> Self {
        Self { patience, timer: None, moved: false }
    }

    /// Nothing moves: fails if that has lasted.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let timer = self.timer.get_or_insert_with(|| {
                self.moved = false;
                Box::pin(sleep(self.patience))
            });
            ready!(timer.as_mut().poll(context));
            self.timer = None;
            if !self.moved {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow"));
            }
        }
    }

    /// What was polled, or the failure if it is pending for too long.
    fn over<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.moved = true;
            return polled;
        }
        self.poll(context).map(Err)
    }
}

impl<S> Patient<S> {
    /// Waits `idle` for something to read, and `stall` for something to be written.
    pub(super) const fn new(stream: S, idle: Duration, stall: Duration) -> Self {
        Self { stream, reading: Wait::new(idle), writing: Wait::new(stall) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.reading.over(context, polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.writing.over(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.writing.over(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.writing.over(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.writing.over(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const IDLE: Duration = Duration::from_secs(10);
    const STALL: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_given_up() {
        let (stream, _client) = duplex(8);
        let mut patient = Patient::new(stream, IDLE, STALL);
        assert_eq!(patient.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_something_now_and_then_is_not() {
        let (stream, mut client) = duplex(8);
        let mut patient = Patient::new(stream, IDLE, STALL);
        let talk = async {
            for byte in 0..20 {
                sleep(Duration::from_secs(7)).await;
                client.write_u8(byte).await.unwrap();
            }
            client
        };
        let listen = async {
            for byte in 0..20 {
                assert_eq!(patient.read_u8().await.unwrap(), byte);
            }
        };
        let (_client, ()) = tokio::join!(talk, listen);
        let silent = patient.read_u8().await;
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (stream, _client) = duplex(8);
        let mut patient = Patient::new(stream, IDLE, STALL);
        let written = patient.write_all(&[0; 100]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
