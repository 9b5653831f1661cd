//! Names the reasons why a request was not answered.

use std::io;

use crate::connect;

/// Bytes that are not an HTTP answer, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub &'static str);

/// The reason why an exchange failed. The connection is unusable after any of these.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// No answer in time.
    #[error("no answer within the time limit")]
    Timeout,
    /// The connection broke.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// The answer is malformed.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The server did not try the request (HTTP/2 only).
    #[error("the server refused the stream")]
    NotTried,
    /// No connection for the request could be opened.
    #[error("no connection: {0}")]
    NotConnected(Box<connect::Error>),
    /// The server closes the connection and did not take the request; another connection may send it (HTTP/2 only).
    #[error("the server closes the connection and takes no more requests on it")]
    Leaving,
}

impl From<plimsoll_net::ExchangeError<Malformed>> for ExchangeError {
    fn from(fault: plimsoll_net::ExchangeError<Malformed>) -> Self {
        match fault {
            plimsoll_net::ExchangeError::Timeout => Self::Timeout,
            plimsoll_net::ExchangeError::Lost(error) => Self::Lost(error),
            plimsoll_net::ExchangeError::Malformed(error) => Self::Malformed(error),
        }
    }
}
