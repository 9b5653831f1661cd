//! Limits the time without progress on a stream, for clients that neither send nor read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose reads and writes time out without progress, after at least the limit and less than twice the limit.
/// This way one timer serves many requests.
pub(super) struct TimeoutStream<S> {
    stream: S,
    reads: Timeout,
    writes: Timeout,
}

struct Timeout {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether bytes have moved since the timer started.
    progressed: bool,
}

impl Timeout {
    const fn new(limit: Duration) -> Self {
        Self { limit, timer: None, progressed: false }
    }

    /// Polls the timer. Ready after a whole period without progress.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let timer = self.timer.get_or_insert_with(|| {
                self.progressed = false;
                Box::pin(sleep(self.limit))
            });
            ready!(timer.as_mut().poll(context));
            self.timer = None;
            if !self.progressed {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow"));
            }
        }
    }

    /// Passes the result of a poll on, or a timeout if it is pending for too long.
    fn check<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.progressed = true;
            return polled;
        }
        self.poll(context).map(Err)
    }
}

impl<S> TimeoutStream<S> {
    /// Limits reads to `idle` and writes to `stall`.
    pub(super) const fn new(stream: S, idle: Duration, stall: Duration) -> Self {
        Self { stream, reads: Timeout::new(idle), writes: Timeout::new(stall) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.reads.check(context, polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.writes.check(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.writes.check(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.writes.check(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.writes.check(context, polled)
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
    async fn a_silent_client_times_out() {
        let (stream, _client) = duplex(8);
        let mut limited = TimeoutStream::new(stream, IDLE, STALL);
        assert_eq!(limited.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_now_and_then_does_not_time_out() {
        let (stream, mut client) = duplex(8);
        let mut limited = TimeoutStream::new(stream, IDLE, STALL);
        let talk = async {
            for byte in 0..20 {
                sleep(Duration::from_secs(7)).await;
                client.write_u8(byte).await.unwrap();
            }
            client
        };
        let listen = async {
            for byte in 0..20 {
                assert_eq!(limited.read_u8().await.unwrap(), byte);
            }
        };
        let (_client, ()) = tokio::join!(talk, listen);
        let silent = limited.read_u8().await;
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_times_out() {
        let (stream, _client) = duplex(8);
        let mut limited = TimeoutStream::new(stream, IDLE, STALL);
        let written = limited.write_all(&[0; 100]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
