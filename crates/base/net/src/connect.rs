//! Opens streams: resolves the name, connects and does the TLS handshake within one time limit.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::{AlertDescription, Error as RustlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::socks::{self, SocksProxy};
use crate::stream::Stream;
use crate::tls::{Tls, TlsError};

/// A TCP server, and the required name of its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// A name or an IP address, without brackets.
    pub host: &'a str,
    /// The TCP port.
    pub port: u16,
    /// The address to connect to, instead of an address of `host`. The certificate must still have the name
    /// of `host`. A connection through a proxy ignores it.
    pub address: Option<SocketAddr>,
    /// The proxy that opens the connection, and resolves `host`.
    pub proxy: Option<&'a SocksProxy>,
}

/// The reason why connecting failed. The caller adds the address.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No server listens at the address.
    #[error("the connection was refused")]
    Refused,
    /// The network or the name service failed.
    #[error("{0}")]
    Unreachable(#[source] io::Error),
    /// The system has no local port, or no local address, for a further connection.
    #[error("{0}")]
    NoLocalPort(#[source] io::Error),
    /// The TCP connection exceeded the time limit.
    #[error("no connection within the time limit")]
    Timeout,
    /// The TCP connection was open, but the TLS handshake exceeded the time limit.
    #[error("no TLS handshake within the time limit")]
    TlsTimeout,
    /// The server name is invalid.
    #[error(transparent)]
    ServerName(TlsError),
    /// The server supports none of the offered application protocols.
    #[error("{0}")]
    NoProtocol(#[source] io::Error),
    /// The TLS handshake failed because the peer does not speak TLS, or closed the connection.
    #[error("{0}")]
    NotTls(#[source] io::Error),
    /// The TLS handshake failed for another reason.
    #[error("{0}")]
    Tls(#[source] io::Error),
}

/// Connects to a server by TCP, with TLS if `tls` is set. `limit` bounds all steps.
///
/// # Errors
/// Any [`ConnectError`].
pub async fn connect(
    destination: Destination<'_>,
    tls: Option<&Tls>,
    limit: Duration,
) -> Result<Stream, ConnectError> {
    let is_connected = AtomicBool::new(false);
    let opened = tokio::time::timeout(limit, open(destination, tls, &is_connected)).await;
    opened.unwrap_or_else(|_| {
        Err(if is_connected.into_inner() { ConnectError::TlsTimeout } else { ConnectError::Timeout })
    })
}

/// Connects to a server by a Unix socket within `limit`.
///
/// # Errors
/// [`ConnectError::Refused`], [`ConnectError::Unreachable`] or [`ConnectError::Timeout`].
pub async fn connect_unix(path: &Path, limit: Duration) -> Result<Stream, ConnectError> {
    let opened = tokio::time::timeout(limit, UnixStream::connect(path)).await;
    let stream = opened.map_err(|_| ConnectError::Timeout)?;
    stream.map(Stream::Unix).map_err(unconnected)
}

/// Connects by TCP and turns Nagle's algorithm off, without a time limit.
///
/// # Errors
/// When the system cannot connect.
pub async fn tcp(destination: Destination<'_>) -> io::Result<TcpStream> {
    let Destination { host, port, address, proxy } = destination;
    let stream = match (proxy, address) {
        (Some(proxy), _) => return socks::through(proxy, host, port).await,
        (None, Some(address)) => TcpStream::connect(address).await?,
        (None, None) => TcpStream::connect((host, port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn open(
    destination: Destination<'_>,
    tls: Option<&Tls>,
    is_connected: &AtomicBool,
) -> Result<Stream, ConnectError> {
    let stream = tcp(destination).await.map_err(unconnected)?;
    is_connected.store(true, Ordering::Relaxed);
    let Some(tls) = tls else { return Ok(Stream::Tcp(stream)) };
    Ok(Stream::Tls(Box::new(secure(stream, destination.host, tls).await?)))
}

/// Does the TLS handshake with `host` on an open stream, without a time limit: for protocols that begin it late.
///
/// # Errors
/// [`ConnectError::ServerName`], [`ConnectError::NoProtocol`], [`ConnectError::NotTls`] or [`ConnectError::Tls`].
pub async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
    tls: &Tls,
) -> Result<TlsStream<S>, ConnectError> {
    let name = tls.name_for(host).map_err(ConnectError::ServerName)?;
    TlsConnector::from(tls.config().clone()).connect(name, stream).await.map_err(no_session)
}

fn unconnected(error: io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused,
        io::ErrorKind::AddrNotAvailable => ConnectError::NoLocalPort(error),
        _ => ConnectError::Unreachable(error),
    }
}

fn no_session(error: io::Error) -> ConnectError {
    let no_protocol = RustlsError::AlertReceived(AlertDescription::NoApplicationProtocol);
    match error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>()) {
        Some(RustlsError::InvalidMessage(_)) => ConnectError::NotTls(error),
        Some(inner) if *inner == no_protocol => ConnectError::NoProtocol(error),
        _ if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            ConnectError::NotTls(error)
        }
        _ => ConnectError::Tls(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system's error when every local port is taken.
    const EADDRNOTAVAIL: i32 = 99;

    #[test]
    fn an_exhausted_port_range_is_told_from_an_unreachable_server() {
        let no_port = unconnected(io::Error::from_raw_os_error(EADDRNOTAVAIL));
        assert!(matches!(no_port, ConnectError::NoLocalPort(_)), "{no_port}");
        let other = unconnected(io::ErrorKind::HostUnreachable.into());
        assert!(matches!(other, ConnectError::Unreachable(_)), "{other}");
    }
}
