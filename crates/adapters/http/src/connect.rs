//! Opens a stream to the service and explains failures.

use std::io;
use std::time::Duration;

use plimsoll_net::{ConnectError, Destination, Stream};

use crate::scenario::Protocol;
use crate::setup::Endpoint;

/// The reason why no connection is usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server listens at this address.
    #[error(
        "{address} refused the connection: start the service there, or correct host and port in `http.url`"
    )]
    Refused {
        /// The address.
        address: String,
    },
    /// The network or the name service failed.
    #[error("{address} cannot be reached ({source}): check the host name in `http.url` and the network")]
    Unreachable {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// No connection or no answer in time.
    #[error(
        "{address} did not answer within {limit:?}: check that it runs and is not overloaded, or raise the limit with \
         `--set http.timeout=30s`"
    )]
    Timeout {
        /// The address.
        address: String,
        /// The time limit.
        limit: Duration,
    },
    /// The TCP connection was open, but TLS did not start in time.
    #[error(
        "{address} accepted the connection but did not begin TLS within {limit:?}: check the port and that it speaks https, \
         or raise `http.limits.connect_timeout`"
    )]
    NoTls {
        /// The address.
        address: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server speaks HTTP without TLS.
    #[error("{address} answers HTTP without TLS: write http:// in `http.url`")]
    InTheClear {
        /// The address.
        address: String,
    },
    /// The TLS handshake failed.
    #[error(
        "no TLS session with {address} ({source}): check that it speaks TLS, its host name and its CA; `http.tls.ca` names \
         a CA, `http.tls.insecure` accepts any certificate"
    )]
    Tls {
        /// The address.
        address: String,
        /// The reason.
        source: ConnectError,
    },
    /// The system has no local port for a further connection to the service.
    #[error(
        "no local port is free for a connection to {address}: closed connections keep theirs for a minute; open fewer a \
         second, or widen net.ipv4.ip_local_port_range"
    )]
    NoLocalPort {
        /// The address.
        address: String,
    },
    /// The service speaks another protocol.
    #[error("{address} does not speak HTTP/2: use `protocol: http1`")]
    NoHttp2 {
        /// The address.
        address: String,
    },
    /// The peer does not answer like an HTTP server.
    #[error(
        "{address} does not answer like an HTTP server ({detail}): check the port, and whether it wants https"
    )]
    NotHttp {
        /// The address.
        address: String,
        /// The fault in its answer.
        detail: String,
    },
    /// The login was refused.
    #[error(
        "the login at {address} was answered with {status}: check the credentials in `http.auth.login.request`"
    )]
    Login {
        /// The address.
        address: String,
        /// The status.
        status: u16,
    },
    /// The answer to the login holds no token.
    #[error("the answer to the login at {address} has no token at {place}: correct `http.auth.login.token`")]
    NoToken {
        /// The address.
        address: String,
        /// The path in the answer.
        place: String,
    },
    /// The service refused the password or the token.
    #[error("{address} answered {status} to a request with these credentials: check `http.auth`")]
    Credentials {
        /// The address.
        address: String,
        /// The status.
        status: u16,
    },
}

impl Error {
    /// Whether the fault lies in this machine, which has no local port left, and not in the service.
    pub(crate) const fn is_no_local_port(&self) -> bool {
        matches!(self, Self::NoLocalPort { .. })
    }

    /// Whether the peer did not answer the TLS handshake in TLS.
    pub(crate) fn is_no_tls(&self) -> bool {
        matches!(self, Self::NoTls { .. } | Self::Tls { source: ConnectError::NotTls(_), .. })
    }
}

impl Endpoint {
    /// The address for messages.
    pub(crate) fn shown(&self) -> String {
        match self.address {
            Some(address) => address.to_string(),
            None => format!("{}:{}", self.url.host_in_brackets(), self.url.port),
        }
    }

    /// The destination of connections.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination { host: &self.url.host, port: self.url.port, address: self.address, proxy: None }
    }
}

/// Opens a stream. Must be called on a tokio runtime with IO and time enabled.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Stream, Error> {
    let limit = endpoint.connect_timeout;
    let opened = plimsoll_net::connect(endpoint.destination(), endpoint.tls.as_ref(), limit).await;
    let stream = opened.map_err(|error| no_connection(endpoint, error))?;
    let has_http2 = stream.alpn_protocol() == Some(Protocol::Http2.alpn());
    if endpoint.tls.is_some() && endpoint.protocol == Protocol::Http2 && !has_http2 {
        return Err(Error::NoHttp2 { address: endpoint.shown() });
    }
    Ok(stream)
}

fn no_connection(endpoint: &Endpoint, error: ConnectError) -> Error {
    let (address, limit) = (endpoint.shown(), endpoint.connect_timeout);
    match error {
        ConnectError::Refused => Error::Refused { address },
        ConnectError::NoLocalPort(_) => Error::NoLocalPort { address },
        ConnectError::Unreachable(source) => Error::Unreachable { address, source },
        ConnectError::Timeout => Error::Timeout { address, limit },
        ConnectError::TlsTimeout => Error::NoTls { address, limit },
        ConnectError::NoProtocol(_) if endpoint.protocol == Protocol::Http2 => Error::NoHttp2 { address },
        source => Error::Tls { address, source },
    }
}
