//! Reads and writes TCP, TLS over TCP, or a Unix socket. The type is an enum, so that plain TCP has no overhead.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// An open stream to a server.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Reads the available bytes into `into` and returns their number; 0 is the end of the stream.
    #[inline]
    pub fn poll_read_into(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(into);
        Pin::new(self).poll_read(cx, &mut into).map_ok(|()| into.filled().len())
    }

    /// The application protocol that both sides agreed on in the TLS handshake (ALPN).
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, from),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, from),
        }
    }

    /// Hands buffered TLS records to the kernel. Sockets buffer nothing in this process.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
