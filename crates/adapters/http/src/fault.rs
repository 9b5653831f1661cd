//! Names the reasons why a request was not answered.

use std::io;

use crate::http1::Malformed;

/// Why an exchange failed. After any of these the connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// No answer in time.
    #[error("no answer within the time limit")]
    Timeout,
    /// The connection broke.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// The answer made no sense.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The server said that it did not try (HTTP/2 only).
    #[error("the server refused the stream")]
    NotTried,
    /// The server ends the connection and did not take the request, which may go by another (HTTP/2 only).
    #[error("the server ends the connection and takes no more requests on it")]
    Leaving,
}

impl From<plimsoll_net::Fault<Malformed>> for Fault {
    fn from(fault: plimsoll_net::Fault<Malformed>) -> Self {
        match fault {
            plimsoll_net::Fault::Timeout => Self::Timeout,
            plimsoll_net::Fault::Lost(error) => Self::Lost(error),
            plimsoll_net::Fault::Malformed(error) => Self::Malformed(error),
        }
    }
}
