//! What can go wrong on the cold paths, and what to do about it.

use std::io;
use std::time::Duration;

use crate::address::Address;
use crate::element::{self, Elements};
use crate::frame::Malformed;

/// A command, a find or a connection attempt that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing listens there.
    #[error("{address} refused the connection: start the server there, or correct the host and port")]
    Refused {
        /// Where.
        address: Address,
    },
    /// The network or the name service says no.
    #[error("{address} cannot be reached ({source}): check the host name and the network")]
    Unreachable {
        /// Where.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// No connection, or no answer, in time. The connection, if there was one, is broken.
    #[error(
        "{address} did not answer within {limit:?}: is it stopped or overloaded? Or raise the time limit"
    )]
    Timeout {
        /// Where.
        address: Address,
        /// The time limit.
        limit: Duration,
    },
    /// The TLS handshake failed.
    #[error(
        "no TLS session with {address} ({source}): check that the server speaks TLS, its name and its authority"
    )]
    Tls {
        /// Where.
        address: Address,
        /// What rustls said.
        source: io::Error,
    },
    /// The settings for TLS cannot be used.
    #[error("TLS cannot be set up ({detail}): give the authority's certificates as PEM")]
    TlsSettings {
        /// What is wrong with them.
        detail: String,
    },
    /// The credential was not accepted, or the server could not prove that it knows it.
    #[error("authentication of {user:?} at {address} failed ({detail}): check user, password and authSource")]
    Authentication {
        /// Where.
        address: Address,
        /// Who.
        user: String,
        /// What the server said, or what was wrong with its proof.
        detail: String,
    },
    /// The server is older than this client supports.
    #[error(
        "{address} speaks wire version {max_wire_version} at most, at least {required} is needed: use MongoDB 4.4 or later"
    )]
    TooOld {
        /// Where.
        address: Address,
        /// The newest wire version of the server.
        max_wire_version: i32,
        /// The oldest wire version that this client speaks.
        required: i32,
    },
    /// What listens there does not speak MongoDB's protocol, or speaks it under TLS only.
    #[error(
        "{address} does not answer like a MongoDB server ({detail}): check the port, and whether it wants TLS"
    )]
    NotMongo {
        /// Where.
        address: Address,
        /// What was wrong with the answer.
        detail: String,
    },
    /// The connection broke. It must be opened again.
    #[error("the connection to {address} was lost ({source}): open a new one")]
    Lost {
        /// Where.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier exchange failed or was abandoned; nothing was sent.
    #[error("the connection to {address} is broken by an earlier failure: open a new one")]
    Broken {
        /// Where.
        address: Address,
    },
    /// A reply broke the protocol. The connection is broken.
    #[error(
        "a reply of {address} breaks the protocol ({source}): open a new connection, and distrust the server"
    )]
    Protocol {
        /// Where.
        address: Address,
        /// In what.
        source: Malformed,
    },
    /// The server said no.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The request is larger than the server takes; nothing was sent.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A part of the command cannot be written as BSON.
    #[error("the command cannot be written as BSON ({0}): a name or key holds a NUL byte")]
    Encode(#[from] bson::error::Error),
}

/// A document or a message that is larger than the server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are more than the {max} bytes that the server takes: make the document smaller")]
pub struct TooLarge {
    /// Its size in bytes.
    pub bytes: usize,
    /// The most bytes that the server takes.
    pub max: usize,
}

impl TooLarge {
    pub(crate) fn check(bytes: usize, max: usize) -> Result<(), TooLarge> {
        if bytes > max { Err(TooLarge { bytes, max }) } else { Ok(()) }
    }
}

/// A command that the server answered with `ok: 0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the server says: {message} ({name}, code {code})")]
pub struct ServerError {
    /// The number of MongoDB's `error_codes.yml`; 0 if the server gave none.
    pub code: i32,
    /// The name that belongs to the code; empty if the server gave none.
    pub name: String,
    /// The server's own words.
    pub message: String,
    /// Labels such as `RetryableWriteError`.
    pub labels: Vec<String>,
}

impl ServerError {
    /// The error that the body of a reply holds, if it does.
    ///
    /// # Errors
    /// The body is not walkable, or does not say whether it is ok.
    pub(crate) fn of_body(body: &[u8]) -> Result<Option<ServerError>, Malformed> {
        let mut ok = None;
        let mut error = ServerError::default();
        for element in Elements::of(body)? {
            let element = element?;
            match element.key {
                b"ok" => ok = element.as_i64(),
                b"code" => {
                    error.code = element.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0)
                }
                b"codeName" => error.name = text(&element),
                b"errmsg" => error.message = text(&element),
                b"errorLabels" => error.labels = labels(&element)?,
                _ => {}
            }
        }
        match ok {
            None => Err(Malformed("a reply does not say whether it is ok")),
            Some(0) => Ok(Some(error)),
            Some(_) => Ok(None),
        }
    }
}

fn text(element: &element::Element<'_>) -> String {
    String::from_utf8_lossy(element.as_text().unwrap_or_default()).into_owned()
}

fn labels(element: &element::Element<'_>) -> Result<Vec<String>, Malformed> {
    let Some(array) = element.as_array() else { return Ok(Vec::new()) };
    Elements::of(array)?.map(|label| label.map(|label| text(&label))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_refusal_keeps_its_code_name_message_and_labels() {
        let body = rawdoc! {"ok": 0.0, "errmsg": "no", "code": 13, "codeName": "Unauthorized", "errorLabels": ["a", "b"]};
        let error = ServerError::of_body(body.as_bytes()).unwrap().unwrap();
        assert_eq!((error.code, error.name.as_str(), error.message.as_str()), (13, "Unauthorized", "no"));
        assert_eq!(error.labels, ["a", "b"]);
    }

    #[test]
    fn a_body_that_is_ok_is_no_error_and_one_that_does_not_say_so_is_malformed() {
        assert_eq!(ServerError::of_body(rawdoc! {"ok": 1}.as_bytes()), Ok(None));
        assert!(ServerError::of_body(rawdoc! {"n": 1}.as_bytes()).is_err());
    }
}
