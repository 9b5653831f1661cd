//! Commits many changes as one transaction: a server that syncs its journal for each statement syncs it once for all of them.
//!
//! A process that dies in the middle leaves its transaction open, and its documents locked, for up to a minute. So each owner of
//! partitions stores a number with its lease. Its session ids derive from that number, so the next owner can end the sessions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc};
use plimsoll_deployment::Error;
use plimsoll_wire::Error as WireError;
use plimsoll_workflow::port::{StoreError, Stored};
use tokio::time::timeout;

use super::pool::{Borrowed, Pool, classify, reason, session};
use super::{durable, number};
use crate::reply::server_error;

/// Codes of servers without transactions: IllegalOperation, CommandNotFound, CommandNotSupported, OperationNotSupportedInTransaction.
const UNSUPPORTED: [i32; 4] = [20, 59, 115, 263];

/// The time limit for aborting a transaction: a server that does not answer must not delay the report of the failure.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// The result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// All changes are durable.
    Done,
    /// A write changed fewer documents than it must: nothing happened.
    Short,
    /// The transaction was aborted. A server without transactions may have kept its changes.
    Aborted,
}

/// A command of a transaction, with the number of documents that it must change.
pub(super) type Write = (RawDocumentBuf, Option<i64>);

/// Runs writes as one transaction, which is aborted unless all of them succeed.
///
/// # Errors
///
/// If the connection fails, or the result of the commit is unknown: the changes may have been made.
pub(super) async fn together(pool: &Pool, writes: Vec<Write>) -> Stored<Together> {
    let mut place = pool.borrow().await?;
    let (session, transaction) = place.next_transaction();
    let marked = |mut command: RawDocumentBuf| {
        command.append(cstr!("lsid"), rawdoc! {"id": session.clone()});
        command.append(cstr!("txnNumber"), transaction);
        command.append(cstr!("autocommit"), false);
        command
    };
    for (at, (write, wanted)) in writes.into_iter().enumerate() {
        let mut command = marked(write);
        if at == 0 {
            command.append(cstr!("startTransaction"), true);
        }
        let undone = match place.command(&pool.db, &command).await {
            Ok(reply) if server_error(&reply).is_some() => Together::Aborted,
            Ok(reply) if wanted.is_none_or(|n| number(&reply, "n") == Some(n)) => continue,
            Ok(_) => Together::Short,
            Err(Error::Wire(WireError::Server(error))) => {
                note_support(pool, error.code);
                Together::Aborted
            }
            Err(error) => {
                abort(&mut place, &marked(rawdoc! {"abortTransaction": 1})).await;
                return Err(classify(&error));
            }
        };
        abort(&mut place, &marked(rawdoc! {"abortTransaction": 1})).await;
        return Ok(undone);
    }
    let commit = rawdoc! {"commitTransaction": 1, "writeConcern": durable()};
    let answer = place.command("admin", &marked(commit)).await;
    if let Err(Error::Wire(WireError::Server(error))) = &answer {
        note_support(pool, error.code);
    }
    let result = of_commit(&answer);
    // The commit may have happened.
    if answer.is_err() && result.is_err() {
        abort(&mut place, &marked(rawdoc! {"abortTransaction": 1})).await;
    }
    result
}

/// The result of a transaction by the answer to its commit.
///
/// # Errors
///
/// If the result of the commit is unknown.
fn of_commit(answer: &Result<RawDocumentBuf, Error>) -> Stored<Together> {
    match answer {
        Ok(reply) => match server_error(reply) {
            Some(error) => Err(StoreError::Unavailable(reason(error))),
            None => Ok(Together::Done),
        },
        Err(error) if is_aborted(error) => Ok(Together::Aborted),
        Err(error) => Err(StoreError::Unavailable(classify(error).reason().clone())),
    }
}

/// Ends a transaction, on a new connection if the old one is lost: a server keeps the transaction of a client that has gone, and the locks on
/// its documents, for a minute. A transaction that was committed stays so. If this fails, the next transaction of the session ends it.
async fn abort(place: &mut Borrowed<'_>, command: &RawDocument) {
    drop(timeout(ABORT_PATIENCE, place.command("admin", command)).await);
}

/// Whether the server certainly did not commit.
fn is_aborted(error: &Error) -> bool {
    let Error::Wire(WireError::Server(error)) = error else { return false };
    UNSUPPORTED.contains(&error.code) || error.labels.iter().any(|label| label == "TransientTransactionError")
}

/// Remembers that the server has no transactions.
fn note_support(pool: &Pool, code: i32) {
    if UNSUPPORTED.contains(&code) {
        pool.has_transactions.store(false, Ordering::Relaxed);
    }
}

/// Ends the transactions that a process left open. Without the right to do so, the server ends them after a minute.
pub(super) async fn end_sessions(pool: &Pool, first: i64, count: usize) {
    let mut sessions = RawArrayBuf::new();
    (0..count).for_each(|place| sessions.push(rawdoc! {"id": session(first, place)}));
    if let Ok(mut place) = pool.borrow().await {
        drop(place.command("admin", &rawdoc! {"killSessions": sessions}).await);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::ServerError;
    use plimsoll_workflow::port::Reason;

    use super::*;

    fn refused(code: i32, name: &str, labels: &[&str]) -> Result<RawDocumentBuf, Error> {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Err(WireError::Server(ServerError { code, name: name.into(), message: "no".into(), labels }).into())
    }

    #[test]
    fn a_commit_with_an_unknown_result_keeps_the_code_and_the_name_of_the_server() {
        let late = rawdoc! {"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting for replication timed out"};
        let unknown = |code, name: &str, message: &str| {
            Err(StoreError::Unavailable(Reason { code, name: name.into(), message: message.into() }))
        };
        for (answer, result) in [
            (Ok(rawdoc! {"ok": 1.0}), Ok(Together::Done)),
            (
                Ok(rawdoc! {"ok": 1.0, "writeConcernError": late}),
                unknown(64, "WriteConcernTimeout", "waiting for replication timed out"),
            ),
            (refused(112, "WriteConflict", &["TransientTransactionError"]), Ok(Together::Aborted)),
            (refused(20, "IllegalOperation", &[]), Ok(Together::Aborted)),
            (refused(91, "ShutdownInProgress", &[]), unknown(91, "ShutdownInProgress", "no")),
            (refused(2, "BadValue", &[]), unknown(2, "BadValue", "no")),
        ] {
            assert_eq!(of_commit(&answer), result);
        }
    }
}
