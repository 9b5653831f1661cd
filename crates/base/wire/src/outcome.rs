//! Names the outcomes of a document that the client can know.

use crate::class::Class;
use crate::retryable::RetryAdvice;

/// The outcome of the write of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server confirmed the write at the requested write concern.
    Acknowledged,
    /// The server refused the write.
    Rejected(Class),
    /// The server may or may not have applied the write.
    Unknown(Cause),
    /// The server did not try the write: it was never sent, or followed a failure in an ordered batch.
    NotSent,
}

/// The reason of an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// No reply came in time; the connection is broken.
    Timeout,
    /// The connection was lost, or a malformed reply broke it.
    ConnectionLost,
    /// The server applied the write, but not at the requested write concern.
    WriteConcern,
    /// The server was interrupted: it stepped down, shut down, was killed, ran out of time, or lost a shard.
    Interrupted,
    /// The write was sent with `w: 0`: the kernel has the bytes, and the server promises nothing.
    Unacknowledged,
    /// The server reported success but counted fewer documents than the batch has.
    Miscounted,
}

impl Cause {
    /// The name for reports: lower-case words with spaces.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Timeout => "timeout",
            Cause::ConnectionLost => "connection lost",
            Cause::WriteConcern => "write concern",
            Cause::Interrupted => "interrupted",
            Cause::Unacknowledged => "unacknowledged",
            Cause::Miscounted => "miscounted",
        }
    }
}

/// Consecutive documents of one batch that share an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index of the first document in the batch, from 0.
    pub first: u32,
    /// The number of documents, at least 1.
    pub count: u32,
    /// Their outcome.
    pub outcome: Outcome,
}

impl Outcome {
    /// The outcome of a document that the reply names with this error code.
    ///
    /// The server rolls back a failed statement, so the document was rejected. After an interruption or the loss of a shard
    /// the statement may have been applied nevertheless.
    pub fn of_write_error(code: i32) -> Outcome {
        match code {
            // MaxTimeMSExpired for one statement: the server rolled it back.
            50 => Outcome::Rejected(Class::Overload),
            code if may_have_run(code) => Outcome::Unknown(Cause::Interrupted),
            code => Outcome::Rejected(Class::of_code(code)),
        }
    }

    /// The outcome of every document of a command that failed as a whole (`ok: 0`).
    ///
    /// An interruption stops a batch at any document (MongoDB, `src/mongo/db/ops/write_ops_exec.cpp`, `handleError`), so
    /// some documents may have been applied. Other errors occur before execution.
    pub fn of_command_error(code: i32) -> Outcome {
        if may_have_run(code) {
            Outcome::Unknown(Cause::Interrupted)
        } else {
            Outcome::Rejected(Class::of_code(code))
        }
    }

    /// The outcome of every document of a command that failed as a whole, with the server's labels. A retryable write may have been
    /// executed, unless the server was not the primary or says that it wrote nothing.
    pub fn of_labelled_error(code: i32, advice: RetryAdvice) -> Outcome {
        match Outcome::of_command_error(code) {
            _ if advice.wrote_nothing => Outcome::Rejected(Class::of_code(code)),
            Outcome::Rejected(class) if advice.is_retryable && class != Class::NotPrimary => {
                Outcome::Unknown(Cause::Interrupted)
            }
            outcome => outcome,
        }
    }
}

/// Whether a code is of the categories Interruption, ShutdownError or NetworkError of `error_codes.yml`, or a step-down.
fn may_have_run(code: i32) -> bool {
    match code {
        // LockTimeout, MaxTimeMSExpired, CursorKilled, ExceededTimeLimit, ClientDisconnect, transaction coordinator
        // and lifetime, InterruptedDueToStorageChange, InterruptedDueToReshardingCriticalSection.
        24 | 50 | 237 | 262 | 279 | 281 | 290 | 355 | 453 => true,
        // InterruptedAtShutdown, Interrupted, InterruptedDueToReplStateChange, ClientMarkedKilled,
        // RetriableRemoteCommandFailure, InterruptedDueToFCVChange.
        11600..=11602 | 46841 | 91331 | 10045600 => true,
        // PrimarySteppedDown, ShutdownInProgress.
        189 | 91 => true,
        // HostUnreachable, NetworkTimeout, NetworkInterfaceExceededTimeLimit, ConnectionError, SocketException: a
        // mongos lost its shard.
        6 | 89 | 202 | 384 | 9001 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_primary_rejects_and_an_interrupted_server_leaves_the_outcome_unknown() {
        for code in [10107, 13435, 10058] {
            assert_eq!(Outcome::of_command_error(code), Outcome::Rejected(Class::NotPrimary));
        }
        for code in [11600, 11602, 189, 91] {
            assert_eq!(Outcome::of_command_error(code), Outcome::Unknown(Cause::Interrupted));
            assert_eq!(Outcome::of_write_error(code), Outcome::Unknown(Cause::Interrupted));
        }
    }

    #[test]
    fn an_expired_time_limit_rejects_a_named_statement_but_leaves_a_whole_batch_unknown() {
        assert_eq!(Outcome::of_write_error(50), Outcome::Rejected(Class::Overload));
        assert_eq!(Outcome::of_command_error(50), Outcome::Unknown(Cause::Interrupted));
    }
}
