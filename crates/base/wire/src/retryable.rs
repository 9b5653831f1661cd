//! Decides whether a failed command may be sent again, as MongoDB's specifications of retryable reads and retryable writes say.
//!
//! A write may be sent again if the server says so by a label, because its number makes a second execution
//! impossible. A read may be sent again after certain codes. Both may be sent again after a lost connection,
//! but not after the time limit, because it limits the whole operation.

use bson::RawDocument;
use plimsoll_element::Elements;

use crate::error::{Error, Malformed, ServerError};

/// The label of errors after which a write may be sent again.
const RETRYABLE: &str = "RetryableWriteError";
/// The label of errors of a write that changed nothing.
const NOTHING_WRITTEN: &str = "NoWritesPerformed";

/// The advice of an answer to a command, or of a missing answer, about a further attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryAdvice {
    /// Whether the command may be sent again.
    pub is_retryable: bool,
    /// Whether this attempt certainly changed nothing. It then says nothing about an earlier attempt.
    pub wrote_nothing: bool,
}

impl RetryAdvice {
    /// No further attempt.
    pub const FINAL: Self = Self { is_retryable: false, wrote_nothing: false };

    /// The advice after a failed read.
    pub fn of_read(error: &Error) -> Self {
        let is_retryable = match error {
            Error::Server(server) => is_retryable_read(server.code),
            other => is_of_network(other),
        };
        Self { is_retryable, ..Self::FINAL }
    }

    /// The advice after a failed write.
    pub fn of_write(error: &Error) -> Self {
        match error {
            Error::Server(server) => Self::of_labels(server),
            other => Self { is_retryable: is_of_network(other), wrote_nothing: is_unsent(other) },
        }
    }

    /// The advice in the body of an answer to a write.
    pub fn of_body(body: &RawDocument) -> Self {
        let labels = body.get_array("errorLabels").map(|labels| labels.as_bytes());
        labels.ok().and_then(|labels| Self::of_array(Some(labels)).ok()).unwrap_or_default()
    }

    /// The advice in the array of an answer's labels.
    pub(crate) fn of_array(labels: Option<&[u8]>) -> Result<Self, Malformed> {
        let mut advice = Self::FINAL;
        for label in Elements::of(labels.unwrap_or(&[5, 0, 0, 0, 0]))? {
            advice.add(label?.as_text().unwrap_or_default());
        }
        Ok(advice)
    }

    fn of_labels(error: &ServerError) -> Self {
        let mut advice = Self::FINAL;
        error.labels.iter().for_each(|label| advice.add(label.as_bytes()));
        advice
    }

    fn add(&mut self, label: &[u8]) {
        self.is_retryable |= label == RETRYABLE.as_bytes();
        self.wrote_nothing |= label == NOTHING_WRITTEN.as_bytes();
    }

    /// The advice of several commands of one operation.
    pub(crate) fn merge(&mut self, other: Self) {
        self.is_retryable |= other.is_retryable;
        self.wrote_nothing |= other.wrote_nothing;
    }
}

/// Whether a read may be sent again after this code: see "Retryable Error" in MongoDB's specification
/// "Retryable Reads".
const fn is_retryable_read(code: i32) -> bool {
    match code {
        // HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress.
        6 | 7 | 89 | 91 => true,
        // ReadConcernMajorityNotAvailableYet, PrimarySteppedDown, ExceededTimeLimit, SocketException.
        134 | 189 | 262 | 9001 => true,
        // NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange.
        10107 | 11600 | 11602 => true,
        // NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary.
        13435 | 13436 => true,
        _ => false,
    }
}

/// Whether the connection failed, while it was opened or later.
const fn is_of_network(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused { .. } | Error::Unreachable { .. } | Error::Lost { .. } | Error::Broken { .. }
    )
}

/// Whether no byte of the command was sent.
const fn is_unsent(error: &Error) -> bool {
    matches!(error, Error::Refused { .. } | Error::Unreachable { .. } | Error::Broken { .. })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use bson::rawdoc;

    use super::*;
    use crate::address::Address;

    fn server(code: i32, labels: &[&str]) -> Error {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        ServerError { code, labels, ..ServerError::default() }.into()
    }

    fn address() -> Address {
        "h:1".parse().unwrap()
    }

    #[test]
    fn a_read_is_retryable_after_exactly_the_codes_of_the_specification() {
        let retryable = [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];
        for code in 0..20_000 {
            let advice = RetryAdvice::of_read(&server(code, &[]));
            assert_eq!(advice.is_retryable, retryable.contains(&code), "{code}");
        }
        let labelled = RetryAdvice::of_read(&server(24, &["RetryableWriteError"]));
        assert!(!labelled.is_retryable, "the label is for writes");
    }

    #[test]
    fn a_write_is_retryable_by_the_servers_label_alone() {
        for code in [0, 11601, 24, 50, 237, 290, 91, 11600, 10107, 189, 262] {
            assert_eq!(RetryAdvice::of_write(&server(code, &[])), RetryAdvice::FINAL, "{code}");
            let labelled = RetryAdvice::of_write(&server(code, &["x", "RetryableWriteError"]));
            assert!(labelled.is_retryable && !labelled.wrote_nothing, "{code}");
        }
        let nothing = RetryAdvice::of_write(&server(91, &["NoWritesPerformed", "RetryableWriteError"]));
        assert_eq!(nothing, RetryAdvice { is_retryable: true, wrote_nothing: true });
    }

    #[test]
    fn both_are_retryable_after_a_lost_connection_and_final_after_a_time_limit() {
        let source = || io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, is_retryable, wrote_nothing) in [
            (Error::Lost { address: address(), source: source() }, true, false),
            (Error::Unreachable { address: address(), source: source() }, true, true),
            (Error::Refused { address: address() }, true, true),
            (Error::Broken { address: address() }, true, true),
            (Error::Timeout { address: address(), limit: Duration::from_secs(1) }, false, false),
            (Error::Protocol { address: address(), source: Malformed("x") }, false, false),
            (Error::NoLocalPort { address: address() }, false, false),
        ] {
            assert_eq!(RetryAdvice::of_read(&error).is_retryable, is_retryable, "{error}");
            assert_eq!(RetryAdvice::of_write(&error), RetryAdvice { is_retryable, wrote_nothing }, "{error}");
        }
    }

    #[test]
    fn an_answer_without_labels_or_with_others_gives_no_advice() {
        for body in [rawdoc! {}, rawdoc! {"errorLabels": "x"}, rawdoc! {"errorLabels": ["x", 1]}] {
            assert_eq!(RetryAdvice::of_body(&body), RetryAdvice::FINAL);
        }
        let labelled = rawdoc! {"errorLabels": ["RetryableWriteError"]};
        assert!(RetryAdvice::of_body(&labelled).is_retryable);
    }
}
