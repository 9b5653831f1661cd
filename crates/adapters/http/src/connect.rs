//! Opens a stream to the service: resolve, connect, TLS, all within one time limit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::scenario::Protocol;
use crate::setup::Endpoint;
use crate::stream::Stream;
use crate::tls;

/// Why there is no connection, or nobody is known on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing listens there.
    #[error(
        "{address} refused the connection: start the service there, or correct host and port in `http.url`"
    )]
    Refused {
        /// Where.
        address: String,
    },
    /// The network or the name service says no.
    #[error("{address} cannot be reached ({source}): check the host name in `http.url` and the network")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// No connection, or no answer, in time.
    #[error(
        "{address} did not answer within {limit:?}: is it stopped or overloaded? Or raise the time limit"
    )]
    Timeout {
        /// Where.
        address: String,
        /// The time limit.
        limit: Duration,
    },
    /// A connection, and then no word of TLS in time.
    #[error(
        "{address} took the connection and then did not begin TLS within {limit:?}: check the port and that https is spoken \
         there, or raise `http.limits.connect_timeout`"
    )]
    NoTls {
        /// Where.
        address: String,
        /// The time limit.
        limit: Duration,
    },
    /// TLS was offered to a server that speaks HTTP in the clear.
    #[error("{address} answers HTTP in the clear, without TLS: write http:// in `http.url`")]
    InTheClear {
        /// Where.
        address: String,
    },
    /// The TLS handshake failed.
    #[error(
        "no TLS session with {address} ({source}): check that it speaks TLS, its name and its authority; `http.tls.ca` names \
         an authority, `http.tls.insecure` believes anybody"
    )]
    Tls {
        /// Where.
        address: String,
        /// What rustls said.
        source: io::Error,
    },
    /// The service speaks another protocol.
    #[error("{address} does not speak HTTP/2: say `protocol: http1`")]
    NoHttp2 {
        /// Where.
        address: String,
    },
    /// What listens there does not answer like an HTTP server.
    #[error(
        "{address} does not answer like an HTTP server ({detail}): check the port, and whether it wants https"
    )]
    NotHttp {
        /// Where.
        address: String,
        /// What was wrong.
        detail: String,
    },
    /// The login was refused.
    #[error(
        "the login at {address} was answered with {status}: check the credentials in `http.auth.login.request`"
    )]
    Login {
        /// Where.
        address: String,
        /// The status.
        status: u16,
    },
    /// The answer to the login holds no token.
    #[error("the answer to the login at {address} has no token at {place}: correct `http.auth.login.token`")]
    NoToken {
        /// Where.
        address: String,
        /// Where it was looked for.
        place: String,
    },
    /// Password or token were refused.
    #[error("{address} answered {status} to a request with these credentials: check `http.auth`")]
    Credentials {
        /// Where.
        address: String,
        /// The status.
        status: u16,
    },
}

impl Error {
    /// Whether what came back in a TLS handshake was none of TLS, or the end of the connection.
    pub(crate) fn is_no_tls(&self) -> bool {
        let Self::Tls { source, .. } = self else { return matches!(self, Self::NoTls { .. }) };
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(inner, Some(rustls::Error::InvalidMessage(_)))
            || matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
    }
}

impl Endpoint {
    /// Where it is, for people.
    pub(crate) fn shown(&self) -> String {
        match self.address {
            Some(address) => address.to_string(),
            None => format!("{}:{}", self.url.host_in_brackets(), self.url.port),
        }
    }
}

/// Opens a stream. Must be called on a tokio runtime with IO and time enabled.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Stream, Error> {
    let limit = endpoint.connect_timeout;
    let is_connected = AtomicBool::new(false);
    let opened = tokio::time::timeout(limit, stream(endpoint, &is_connected)).await;
    opened.unwrap_or_else(|_| {
        let address = endpoint.shown();
        // What comes after connecting is TLS.
        Err(if is_connected.into_inner() {
            Error::NoTls { address, limit }
        } else {
            Error::Timeout { address, limit }
        })
    })
}

async fn stream(endpoint: &Endpoint, is_connected: &AtomicBool) -> Result<Stream, Error> {
    let tcp = tcp(endpoint).await.map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused => Error::Refused { address: endpoint.shown() },
        _ => Error::Unreachable { address: endpoint.shown(), source },
    })?;
    is_connected.store(true, Ordering::Relaxed);
    let Some(tls) = &endpoint.tls else { return Ok(Stream::Plain(tcp)) };
    let refuse = |source| Error::Tls { address: endpoint.shown(), source };
    let name =
        ServerName::try_from(endpoint.url.host.clone()).map_err(|error| refuse(io::Error::other(error)))?;
    let connected = TlsConnector::from(tls.config.clone()).connect(name, tcp).await;
    let stream = connected.map_err(|source| refuse_protocol(endpoint, source))?;
    let agreed = stream.get_ref().1.alpn_protocol();
    if endpoint.protocol == Protocol::Http2 && agreed != Some(tls::offered(Protocol::Http2)) {
        return Err(Error::NoHttp2 { address: endpoint.shown() });
    }
    Ok(Stream::Tls(Box::new(stream)))
}

/// A server that knows none of the protocols that are offered says so in an alert.
fn refuse_protocol(endpoint: &Endpoint, source: io::Error) -> Error {
    let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    match inner {
        Some(error) if *error == alert && endpoint.protocol == Protocol::Http2 => {
            Error::NoHttp2 { address: endpoint.shown() }
        }
        _ => Error::Tls { address: endpoint.shown(), source },
    }
}

/// A TCP connection.
pub(crate) async fn tcp(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let stream = match endpoint.address {
        Some(address) => TcpStream::connect(address).await?,
        None => TcpStream::connect((endpoint.url.host.as_str(), endpoint.url.port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}
