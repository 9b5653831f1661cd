//! Names the failures of the client, each with a remedy.

use std::io;
use std::time::Duration;

use plimsoll_element::{Damage, Element, Elements};
use plimsoll_net::{ConnectError, TlsError};

use crate::address::Address;

/// Bytes that break MongoDB's protocol, and the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

impl From<Damage> for Malformed {
    fn from(damage: Damage) -> Self {
        Self(damage.as_str())
    }
}

/// A failed command, find or connection attempt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server listens at the address.
    #[error("{address} refused the connection: start the server there, or correct the host and port")]
    Refused {
        /// The server.
        address: Address,
    },
    /// The network or the name service failed.
    #[error("{address} cannot be reached ({source}): check the host name and the network")]
    Unreachable {
        /// The server.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no local port for a further connection to the server.
    #[error(
        "no local port is free for a connection to {address}: closed connections keep theirs for a minute; open fewer a \
         second, or widen net.ipv4.ip_local_port_range"
    )]
    NoLocalPort {
        /// The server.
        address: Address,
    },
    /// No connection or no reply within the time limit. An open connection is broken.
    #[error(
        "{address} did not answer within {limit:?}: check that it runs and is not overloaded, or raise the limit in the URI \
         (`timeoutMS=30000`, for connections `connectTimeoutMS=30000` too) or, for the commands of a run, with `--set timeout=30s`"
    )]
    Timeout {
        /// The server.
        address: Address,
        /// The time limit.
        limit: Duration,
    },
    /// The TLS handshake failed.
    #[error(
        "no TLS session with {address} ({source}): if the port is plain, remove `tls=true` from the URI; otherwise check the \
         server's name and its CA"
    )]
    Tls {
        /// The server.
        address: Address,
        /// The reason.
        source: ConnectError,
    },
    /// The TLS settings are invalid.
    #[error("TLS cannot be set up ({detail}): give the CA certificates as PEM")]
    TlsSettings {
        /// The fault.
        detail: String,
    },
    /// The server rejected the credential, or could not prove that it knows the password.
    #[error(
        "authentication {} at {address} failed ({detail}): check user, password and authSource",
        login(user)
    )]
    Authentication {
        /// The server.
        address: Address,
        /// The user; empty if the certificate names it.
        user: String,
        /// The server's message, or the fault in its proof.
        detail: String,
    },
    /// The server is older than this client supports.
    #[error(
        "{address} speaks wire version {max_wire_version} at most, at least {required} is needed: use MongoDB 4.4 or later"
    )]
    TooOld {
        /// The server.
        address: Address,
        /// The newest wire version of the server.
        max_wire_version: i32,
        /// The oldest wire version that this client speaks.
        required: i32,
    },
    /// The peer does not speak MongoDB's protocol, or only with TLS.
    #[error(
        "{address} does not answer like a MongoDB server ({detail}): check the port, and whether it wants TLS"
    )]
    NotMongo {
        /// The server.
        address: Address,
        /// The fault in its answer.
        detail: String,
    },
    /// The connection broke. Open a new one.
    #[error("the connection to {address} was lost ({source}): open a new one")]
    Lost {
        /// The server.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier exchange failed or was abandoned; no bytes were sent.
    #[error("the connection to {address} is broken by an earlier failure: open a new one")]
    Broken {
        /// The server.
        address: Address,
    },
    /// A reply broke the protocol. The connection is broken.
    #[error(
        "a reply of {address} breaks the protocol ({source}): open a new connection, and distrust the server"
    )]
    Protocol {
        /// The server.
        address: Address,
        /// The fault.
        source: Malformed,
    },
    /// The server refused the command.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The request exceeds the server's limit; no bytes were sent.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// BSON cannot represent a part of the command.
    #[error("the command cannot be written as BSON ({0}): a name or key holds a NUL byte")]
    Encode(#[from] bson::error::Error),
}

impl From<TlsError> for Error {
    fn from(error: TlsError) -> Self {
        Error::TlsSettings { detail: error.to_string() }
    }
}

/// A document or a message that exceeds the server's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes exceed the server's limit of {max} bytes: make the document smaller")]
pub struct TooLarge {
    /// Its size in bytes.
    pub bytes: usize,
    /// The server's limit in bytes.
    pub max: usize,
}

impl TooLarge {
    pub(crate) fn check(bytes: usize, max: usize) -> Result<(), TooLarge> {
        if bytes > max { Err(TooLarge { bytes, max }) } else { Ok(()) }
    }
}

/// The server answered a command with `ok: 0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the server says: {message} ({name}, code {code})")]
pub struct ServerError {
    /// The code, from MongoDB's `error_codes.yml`; 0 if the server gave none.
    pub code: i32,
    /// The code's name; empty if the server gave none.
    pub name: String,
    /// The server's message.
    pub message: String,
    /// Labels such as `RetryableWriteError`.
    pub labels: Vec<String>,
}

impl ServerError {
    /// Reads the error from the body of a reply; `None` if the command succeeded.
    ///
    /// # Errors
    /// The body is malformed or has no `ok`.
    pub(crate) fn of_body(body: &[u8]) -> Result<Option<ServerError>, Malformed> {
        let mut ok = None;
        let mut error = ServerError::default();
        for element in Elements::of(body)? {
            let element = element?;
            match element.key {
                b"ok" => ok = element.as_i64(),
                b"code" => error.code = element.as_code(),
                b"codeName" => error.name = text(&element),
                b"errmsg" => error.message = text(&element),
                b"errorLabels" => error.labels = labels(&element)?,
                _ => {}
            }
        }
        match ok {
            None => Err(Malformed("a reply has no `ok`")),
            Some(0) => Ok(Some(error)),
            Some(_) => Ok(None),
        }
    }
}

fn text(element: &Element<'_>) -> String {
    String::from_utf8_lossy(element.as_text().unwrap_or_default()).into_owned()
}

fn labels(element: &Element<'_>) -> Result<Vec<String>, Malformed> {
    let Some(array) = element.as_array() else { return Ok(Vec::new()) };
    Elements::of(array)?.map(|label| Ok(text(&label?))).collect()
}

/// The user of a login in words.
fn login(user: &str) -> String {
    if user.is_empty() { "by certificate".into() } else { format!("of {user:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_server_error_keeps_its_code_name_message_and_labels() {
        let body = rawdoc! {"ok": 0.0, "errmsg": "no", "code": 13, "codeName": "Unauthorized", "errorLabels": ["a", "b"]};
        let error = ServerError::of_body(body.as_bytes()).unwrap().unwrap();
        assert_eq!((error.code, error.name.as_str(), error.message.as_str()), (13, "Unauthorized", "no"));
        assert_eq!(error.labels, ["a", "b"]);
    }

    #[test]
    fn a_successful_body_is_not_an_error_and_a_body_without_ok_is_malformed() {
        assert_eq!(ServerError::of_body(rawdoc! {"ok": 1}.as_bytes()), Ok(None));
        assert!(ServerError::of_body(rawdoc! {"n": 1}.as_bytes()).is_err());
    }
}
