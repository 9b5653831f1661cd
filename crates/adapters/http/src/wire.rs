//! A connection of the load, whichever protocol it speaks, and the answer on it.

use crate::connect::{self, Error};
use crate::http1::{self, Ask, Fault};
use crate::http2;
use crate::scenario::Protocol;
use crate::setup::Endpoint;

/// A connection of the load.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A connection of its own.
    One(Box<http1::Connection>),
    /// A stream at a time on a connection that others use as well.
    Two(Box<http2::Lane>),
}

/// An answer, as far as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub status: u16,
    pub fields: Fields<'a>,
    /// Empty unless it was to be kept.
    pub body: &'a [u8],
    pub body_len: u64,
    pub is_too_large: bool,
}

/// The headers of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fields<'a> {
    /// As they came.
    Raw(&'a [u8]),
    /// As the library understood them.
    Map(&'a http::HeaderMap),
}

impl<'a> Fields<'a> {
    /// The first of that name, which is in lower case.
    pub(crate) fn get(self, name: &str) -> Option<&'a [u8]> {
        match self {
            Self::Raw(head) => http1::header(head, name),
            Self::Map(map) => map.get(name).map(http::HeaderValue::as_bytes),
        }
    }
}

impl Wire {
    /// Opens one; over HTTP/2 it may share a connection of `pool`.
    pub(crate) async fn open(endpoint: &Endpoint, pool: &http2::Pool) -> Result<Self, Error> {
        let lost = |source| Error::Unreachable { address: endpoint.shown(), source };
        match endpoint.protocol {
            Protocol::Http1 => {
                let stream = connect::open(endpoint).await?;
                let (limit, max) = (endpoint.timeout, endpoint.answer_bytes_max);
                let connection =
                    http1::Connection::new(stream, limit, max, endpoint.requests_max).map_err(lost)?;
                Ok(Self::One(Box::new(connection)))
            }
            Protocol::Http2 => {
                let session = pool.session(endpoint).await?;
                Ok(Self::Two(Box::new(http2::Lane::new(session, endpoint).map_err(lost)?)))
            }
        }
    }

    /// Sends a request, of which the head has `head_len` bytes, and collects its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8], head_len: usize, ask: Ask) -> Result<(), Fault> {
        match self {
            Self::One(connection) => connection.exchange(request, ask).await,
            // A future is as large as its largest part, and is copied when it is made: the large one stands apart.
            Self::Two(lane) => Box::pin(lane.exchange(request, head_len, ask)).await,
        }
    }

    /// The answer to the last request.
    pub(crate) fn answer(&self) -> Answer<'_> {
        match self {
            Self::One(connection) => {
                let incoming = &connection.incoming;
                Answer {
                    status: incoming.status(),
                    fields: Fields::Raw(incoming.head()),
                    body: incoming.body(),
                    body_len: incoming.body_len(),
                    is_too_large: incoming.is_too_large(),
                }
            }
            Self::Two(lane) => lane.answer(),
        }
    }

    /// Bytes sent and received by the last request, TLS and TCP not counted. On a connection that others use as well, a
    /// request is given what went over it since the last one ended: the sum is right.
    pub(crate) fn bytes(&mut self) -> (u64, u64) {
        match self {
            Self::One(connection) => (connection.sent(), connection.incoming.received()),
            Self::Two(lane) => lane.take_bytes(),
        }
    }

    /// Whether it must be opened anew.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Self::One(connection) => connection.is_broken(),
            Self::Two(lane) => lane.is_broken(),
        }
    }

    /// Whether the server has ended it since the last answer, so that nothing can be sent on it.
    pub(crate) async fn is_stale(&mut self) -> bool {
        match self {
            Self::One(connection) => connection.is_stale().await,
            Self::Two(lane) => lane.is_broken(),
        }
    }
}
