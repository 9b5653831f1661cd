//! What became of a document, as far as the client can know.

use crate::class::Class;

/// What the client knows of a document that it was asked to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server said that it was done, at the write concern asked for.
    Acknowledged,
    /// The server said that it was not done.
    Rejected(Class),
    /// The server may or may not have done it.
    Unknown(Cause),
    /// The server did not try it: it was never sent, or stood behind a failure in an ordered batch.
    NotSent,
}

/// Why an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// No reply came in time; the connection is broken.
    Timeout,
    /// The connection broke, or the reply made no sense; the connection is broken.
    ConnectionLost,
    /// Done on the server asked, but not at the write concern asked for.
    WriteConcern,
    /// The server was interrupted in the middle: stepped down, shut down, killed, out of time, or cut off from a shard.
    Interrupted,
    /// Sent with `w: 0`: handed to the kernel, and nothing was promised.
    Unacknowledged,
    /// The server said "ok" but counted fewer documents than it was sent.
    Miscounted,
}

impl Cause {
    /// The name for reports: lower case, words parted by spaces.
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

/// A run of documents of one batch, in the order they were pushed, that share an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The place of the first document in the batch, from 0.
    pub first: u32,
    /// How many documents, at least 1.
    pub count: u32,
    /// What became of them.
    pub outcome: Outcome,
}

impl Outcome {
    /// The outcome of one document that the server's reply names with this error code.
    ///
    /// The server undoes a failed statement, so the document was rejected; but if the code says that the server was
    /// interrupted or lost a shard, the statement may have been done all the same.
    pub fn of_write_error(code: i32) -> Outcome {
        match code {
            // MaxTimeMSExpired, named for one statement: that statement was undone.
            50 => Outcome::Rejected(Class::Overload),
            code if may_have_run(code) => Outcome::Unknown(Cause::Interrupted),
            code => Outcome::Rejected(Class::of_code(code)),
        }
    }

    /// The outcome of every document of a command that failed as a whole (`ok: 0`).
    ///
    /// An interruption aborts a batch wherever it stands (MongoDB, `src/mongo/db/ops/write_ops_exec.cpp`,
    /// `handleError`), so some documents may have been done; other errors come before execution.
    pub fn of_command_error(code: i32) -> Outcome {
        if may_have_run(code) {
            Outcome::Unknown(Cause::Interrupted)
        } else {
            Outcome::Rejected(Class::of_code(code))
        }
    }
}

/// Codes of the categories Interruption, ShutdownError and NetworkError of `error_codes.yml`, and a step-down.
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
    fn a_server_that_was_never_primary_rejected_and_one_that_was_interrupted_is_unknown() {
        for code in [10107, 13435, 10058] {
            assert_eq!(Outcome::of_command_error(code), Outcome::Rejected(Class::NotPrimary));
        }
        for code in [11600, 11602, 189, 91] {
            assert_eq!(Outcome::of_command_error(code), Outcome::Unknown(Cause::Interrupted));
            assert_eq!(Outcome::of_write_error(code), Outcome::Unknown(Cause::Interrupted));
        }
    }

    #[test]
    fn an_expired_time_limit_rejects_the_statement_it_names_but_leaves_a_whole_batch_unknown() {
        assert_eq!(Outcome::of_write_error(50), Outcome::Rejected(Class::Overload));
        assert_eq!(Outcome::of_command_error(50), Outcome::Unknown(Cause::Interrupted));
    }
}
