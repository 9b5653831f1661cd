//! Explains why a deployment is unusable, and whether a retry may help.

use std::path::PathBuf;
use std::time::Duration;

use mongodb::error::{ErrorKind, WriteFailure};
use plimsoll_wire::{Address, Class, Error as Wire, Outcome, ServerError};

/// MongoDB's error code NamespaceNotFound.
const NAMESPACE_NOT_FOUND: i32 = 26;
/// MongoDB's error codes Unauthorized and AuthenticationFailed: such a refusal says nothing about the collection.
const ACCESS_DENIED: [i32; 2] = [13, 18];
/// The name of the code [`NAMESPACE_NOT_FOUND`]. Some products send the name with another code.
const NAMESPACE_NOT_FOUND_NAME: &str = "NamespaceNotFound";
/// The messages for a missing collection, in lower case. Some products send such a message without the code,
/// or with another code.
const MISSING_NAMESPACE: [&str; 2] = ["ns not found", "ns does not exist"];

/// The driver's search for a server ended without one.
const NO_SERVER: &str = "no server that fits the operation answered in time: check that the deployment runs, that its members' names \
                         resolve here, and that a member fits the read preference";
/// The driver closed the connections to a server after one of them failed.
const LOST: &str = "the connections to the server were closed after one of them failed";

/// The reason why a deployment is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a connection string.
    #[error("the server's address is invalid: {0}; write for example mongodb://localhost:27017")]
    Uri(String),
    /// The name service does not know the servers.
    #[error(
        "the name service has no servers for this mongodb+srv:// address: correct the host name, or check that this machine \
         reaches the name service"
    )]
    Unresolved,
    /// No client supports a part of the URI.
    #[error("{0}")]
    Refused(String),
    /// The server belongs to another replica set than the URI names.
    #[error("{address} belongs to {}, not to the replica set `{expected}` of the URI: correct replicaSet or the host", member(.found.as_deref()))]
    OtherSet {
        /// The server.
        address: Address,
        /// The set that the URI names.
        expected: String,
        /// The set that the server names, if any.
        found: Option<String>,
    },
    /// A file of the URI is unreadable.
    #[error("cannot read {path}: {source}; correct {option}")]
    UnreadableFile {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The URI turns acknowledgements off.
    #[error(
        "the server's address says w=0, so that no write would be acknowledged: remove it from the address (only a scenario can ask for it, \
         with `write_concern: {{w: 0}}`)"
    )]
    Unacknowledged,
    /// A TLS certificate names the server's address, not a proxy's.
    #[error(
        "faults: the network to a server with TLS cannot be disturbed, because its certificate names another address; use a \
         server without TLS"
    )]
    TlsBehindProxy,
    /// The proxy that disturbs the network connects to servers directly.
    #[error(
        "faults: the network to a server behind a SOCKS proxy cannot be disturbed; remove `proxyHost` from the address, or the fault"
    )]
    SocksBehindProxy,
    /// The system has no file descriptors left.
    #[error("cannot start an event loop: {0}; raise the limit on open files (ulimit -n)")]
    Runtime(std::io::Error),
    /// The server is unreachable, or refused the connection or the command.
    #[error(transparent)]
    Wire(#[from] Wire),
    /// No server answered within the URI's `serverSelectionTimeoutMS`.
    #[error("after a wait of {} s (serverSelectionTimeoutMS): {cause}", .limit.as_secs_f64())]
    NoAnswer {
        /// The time limit.
        limit: Duration,
        /// The failure of the last attempt.
        cause: Wire,
    },
    /// No primary was found.
    #[error(
        "no primary was found ({0}): check that the replica set has one, and that its members' names resolve here"
    )]
    NoPrimary(String),
    /// No member fits a read preference.
    #[error(
        "no member of the replica set fits the read preference {mode} ({detail}): start such a member, correct its tags, or give \
         another mode"
    )]
    NoMember {
        /// The mode.
        mode: &'static str,
        /// The members that were found.
        detail: String,
    },
}

impl Error {
    /// Whether the fault lies in the URI, so that it appears with any server.
    pub const fn is_of_the_uri(&self) -> bool {
        matches!(
            self,
            Self::Uri(_)
                | Self::Refused(_)
                | Self::Unacknowledged
                | Self::UnreadableFile { .. }
                | Self::Wire(Wire::TlsSettings { .. })
        )
    }

    /// Whether another attempt to connect is useless.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Wire(error) => is_final(error),
            // A member that restarts names no set until it has read its configuration.
            Self::NoAnswer { .. }
            | Self::NoPrimary(_)
            | Self::NoMember { .. }
            | Self::OtherSet { found: None, .. } => false,
            _ => true,
        }
    }

    /// Whether another attempt at a command may help: after a network error, a failover or an overload.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Wire(Wire::Server(error)) => is_transient_code(error.code),
            error => !error.is_final(),
        }
    }
}

/// Whether another attempt to connect is useless after a failure of the client.
pub(crate) const fn is_final(error: &Wire) -> bool {
    matches!(error, Wire::Authentication { .. } | Wire::TooOld { .. } | Wire::TlsSettings { .. })
}

fn member(set: Option<&str>) -> String {
    set.map_or_else(|| "no replica set".to_owned(), |set| format!("the replica set `{set}`"))
}

/// Whether a server's error code reports a transient state.
pub fn is_transient_code(code: i32) -> bool {
    match Outcome::of_command_error(code) {
        Outcome::Unknown(_) | Outcome::Rejected(Class::NotPrimary | Class::Overload) => true,
        // InternalError, UnknownError, FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet.
        Outcome::Rejected(_) => matches!(code, 1 | 8 | 133 | 134),
        Outcome::Acknowledged | Outcome::NotSent => false,
    }
}

/// The driver's error in our words, without its labels, its view of the deployment and the bytes of the
/// answer.
pub fn driver_message(error: &mongodb::error::Error) -> String {
    let refusal = error.server_response().and_then(|reply| reply.get_str("errmsg").ok());
    match (error.kind.as_ref(), refusal) {
        (ErrorKind::InvalidArgument { message, .. } | ErrorKind::Authentication { message, .. }, _) => {
            message.clone()
        }
        (ErrorKind::ServerSelection { .. }, _) => NO_SERVER.to_owned(),
        (ErrorKind::ConnectionPoolCleared { .. }, _) => LOST.to_owned(),
        (ErrorKind::Io(source), _) => format!("the connection to the server failed ({source})"),
        (ErrorKind::Write(failure), _) => write_message(failure),
        (ErrorKind::Custom(ours), _) => {
            ours.downcast_ref::<String>().cloned().unwrap_or_else(|| error.kind.to_string())
        }
        (ErrorKind::Command(command), _) => {
            let (code, name, message) = (command.code, command.code_name.clone(), command.message.clone());
            ServerError { code, name, message, labels: Vec::new() }.to_string()
        }
        // The driver accepts no refusal without a code.
        (ErrorKind::InvalidResponse { .. }, Some(refusal)) => format!("the server says: {refusal}"),
        (other, _) => other.to_string(),
    }
}

/// The refusal of a write, or of its write concern.
fn write_message(failure: &WriteFailure) -> String {
    let (code, name, message) = match failure {
        WriteFailure::WriteError(error) => (error.code, error.code_name.clone(), &error.message),
        WriteFailure::WriteConcernError(error) => (error.code, Some(error.code_name.clone()), &error.message),
        _ => return "the server refused the write".to_owned(),
    };
    ServerError { code, name: name.unwrap_or_default(), message: message.clone(), labels: Vec::new() }
        .to_string()
}

/// Whether the server refused a command because the collection does not exist.
pub(crate) fn is_missing_namespace(error: &ServerError) -> bool {
    let message = error.message.to_ascii_lowercase();
    let says_missing = MISSING_NAMESPACE.iter().any(|part| message.contains(part));
    let is_named = error.code == NAMESPACE_NOT_FOUND || error.name == NAMESPACE_NOT_FOUND_NAME;
    is_named || says_missing && !ACCESS_DENIED.contains(&error.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failovers_and_overload_are_transient_and_refusals_are_not() {
        for code in [91, 189, 10107, 13435, 11600, 112, 202, 133] {
            assert!(is_transient_code(code), "{code}");
        }
        for code in [11000, 121, 13, 18, 26, 73, 0] {
            assert!(!is_transient_code(code), "{code}");
        }
    }

    #[test]
    fn a_refusal_is_repeated_without_the_drivers_own_details() {
        let command = bson::doc! {"code": 238, "codeName": "NotImplemented", "errmsg": "no streams"};
        let command: mongodb::error::CommandError = bson::deserialize_from_document(command).unwrap();
        let message = driver_message(&ErrorKind::Command(command).into());
        assert_eq!(message, "the server says: no streams (NotImplemented, code 238)");
        let message = driver_message(&mongodb::error::Error::custom("words".to_owned()));
        assert!(message.contains("words") && !message.contains("labels"), "{message}");
    }
}
