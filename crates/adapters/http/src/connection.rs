//! Sends requests over HTTP/1.1 or HTTP/2.

use crate::answer::{Answer, Fields};
use crate::connect::{self, Error};
use crate::fault::ExchangeError;
use crate::http1::{self, ReadOptions};
use crate::http2;
use crate::scenario::Protocol;
use crate::setup::Endpoint;

/// A connection for one request at a time.
#[derive(Debug)]
pub(crate) enum Connection {
    /// An HTTP/1.1 connection.
    Http1(Box<http1::Connection>),
    /// A slot for one stream on a shared connection.
    Http2(Box<http2::Slot>),
}

impl Connection {
    /// Opens a connection. Over HTTP/2 it may share a connection of `pool`.
    pub(crate) async fn open(endpoint: &Endpoint, pool: &http2::Pool) -> Result<Self, Error> {
        let lost = |source| Error::Unreachable { address: endpoint.shown(), source };
        match endpoint.protocol {
            Protocol::Http1 => {
                let stream = connect::open(endpoint).await?;
                let (limit, max) = (endpoint.timeout, endpoint.answer_bytes_max);
                let connection =
                    http1::Connection::new(stream, limit, max, endpoint.requests_max).map_err(lost)?;
                Ok(Self::Http1(Box::new(connection)))
            }
            Protocol::Http2 => {
                let session = pool.session(endpoint).await?;
                Ok(Self::Http2(Box::new(http2::Slot::new(session, endpoint).map_err(lost)?)))
            }
        }
    }

    /// Sends a request with a head of `head_len` bytes and collects its answer.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        head_len: usize,
        options: ReadOptions,
    ) -> Result<(), ExchangeError> {
        match self {
            Self::Http1(connection) => connection.exchange(request, options).await,
            // A future is as large as its largest part and is copied when it is made, so the large part is
            // boxed.
            Self::Http2(slot) => Box::pin(slot.exchange(request, head_len, options)).await,
        }
    }

    /// The answer to the last request.
    pub(crate) fn answer(&self) -> Answer<'_> {
        match self {
            Self::Http1(connection) => {
                let incoming = &connection.incoming;
                Answer {
                    status: incoming.status(),
                    fields: Fields::Raw(incoming.head()),
                    body: incoming.body(),
                    body_len: incoming.body_len(),
                    is_too_large: incoming.is_too_large(),
                }
            }
            Self::Http2(slot) => slot.answer(),
        }
    }

    /// Bytes sent and received by the last request, without TLS and TCP. On a shared connection a request gets all bytes
    /// since the last request ended; the sum is exact.
    pub(crate) fn bytes(&mut self) -> (u64, u64) {
        match self {
            Self::Http1(connection) => (connection.sent(), connection.incoming.received()),
            Self::Http2(slot) => slot.take_bytes(),
        }
    }

    /// Whether a new connection is needed.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_broken(),
            Self::Http2(slot) => slot.is_broken(),
        }
    }

    /// Whether the server closed the connection since the last answer.
    pub(crate) async fn is_stale(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_stale().await,
            Self::Http2(slot) => slot.is_broken(),
        }
    }
}
