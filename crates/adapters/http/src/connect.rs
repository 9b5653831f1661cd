//! Opens a stream to the service: resolve, connect, TLS, all within one time limit.

use std::io;
use std::time::Duration;

use plimsoll_net::{ConnectError, Destination, Stream};

use crate::scenario::Protocol;
use crate::setup::Endpoint;

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
        /// The reason.
        source: ConnectError,
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

    /// Where to connect.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination { host: &self.url.host, port: self.url.port, address: self.address }
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
        ConnectError::Unreachable(source) => Error::Unreachable { address, source },
        ConnectError::Timeout => Error::Timeout { address, limit },
        ConnectError::TlsTimeout => Error::NoTls { address, limit },
        ConnectError::NoProtocol(_) if endpoint.protocol == Protocol::Http2 => Error::NoHttp2 { address },
        source => Error::Tls { address, source },
    }
}
