//! The bytes' way: TCP as it is, or under TLS. An enum, so that plain TCP pays for neither.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// An open stream to a server.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads what is there into `into`; 0 bytes are the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(into);
        let read = match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, &mut into),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, &mut into),
        };
        read.map_ok(|()| into.filled().len())
    }

    /// Hands over the bytes of `from` that there is room for.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, from),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, from),
        }
    }

    /// Hands TLS records that are still ours to the kernel. Plain TCP keeps nothing back.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }
}
