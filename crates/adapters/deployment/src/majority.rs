//! Waits until a majority of a replica set, or one member, has all earlier writes, so that a scan misses none.

use std::time::Duration;

use bson::{RawDocument, rawdoc};
use plimsoll_measure::clock;
use plimsoll_wire::{Connection, Error as WireError};

use crate::namespace::Namespace;

/// The time limit for the members to catch up, in milliseconds.
const CATCH_UP_MS: i32 = 100_000;

/// The pause between two greetings of a member that lags.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The reason why a collection cannot be scanned at majority.
#[derive(Debug, thiserror::Error)]
pub enum MajorityError {
    /// The connection failed, or the server refused.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A majority lags behind the primary: reading at majority would report missing documents.
    #[error(
        "a majority of the replica set did not catch up in time ({0}): wait until it has, then audit again"
    )]
    Behind(String),
    /// A member, or the majority of a shard, lacks writes of the primary.
    #[error(
        "it did not catch up within {0:?}: wait until it has, or raise `audit: {{lag_max: …}}`, then audit again"
    )]
    Lagging(Duration),
    /// The server does not report its position in the log of its replica set.
    #[error("it reports no position in the log of its replica set, so its lag is unknown")]
    NoPosition,
}

/// A position in the log of a replica set: term, seconds, and order within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(i64, u32, u32);

/// The progress of a member, as it describes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last operation that the member has.
    pub applied: Position,
    /// The last operation that a majority has, as far as the member knows.
    pub confirmed: Option<Position>,
    /// Whether it can be read: it is the primary or a secondary.
    pub is_readable: bool,
}

impl Progress {
    /// Parses the reply to `hello`.
    fn of(hello: &RawDocument) -> Option<Self> {
        let last = hello.get_document("lastWrite").ok()?;
        let flag = |key: &str| hello.get_bool(key).unwrap_or(false);
        Some(Self {
            applied: position(last, "opTime")?,
            confirmed: position(last, "majorityOpTime"),
            is_readable: flag("isWritablePrimary") || flag("ismaster") || flag("secondary"),
        })
    }
}

fn position(last: &RawDocument, key: &str) -> Option<Position> {
    let position = last.get_document(key).ok()?;
    let time = position.get_timestamp("ts").ok()?;
    Some(Position(position.get_i64("t").ok()?, time.time, time.increment))
}

/// The progress of a member.
///
/// # Errors
/// [`MajorityError::NoPosition`] if it does not report its position; else the server's refusal.
pub async fn progress(connection: &mut Connection) -> Result<Progress, MajorityError> {
    let hello = connection.command("admin", &rawdoc! {"hello": 1}).await?;
    Progress::of(&hello).ok_or(MajorityError::NoPosition)
}

/// Waits until a member that can be read has all operations up to `target`.
///
/// # Errors
/// [`MajorityError::Lagging`] after `limit`; else as [`progress`].
pub async fn catch_up_to(
    connection: &mut Connection,
    target: Position,
    limit: Duration,
) -> Result<(), MajorityError> {
    wait_for(connection, limit, |now| now.is_readable && now.applied >= target).await
}

/// Waits until a majority has all operations that this primary has at the call. Unlike [`catch_up`], it
/// writes nothing, because writes reach a shard only through a mongos.
///
/// # Errors
/// [`MajorityError::Lagging`] after `limit`; else as [`progress`].
pub async fn catch_up_quietly(connection: &mut Connection, limit: Duration) -> Result<(), MajorityError> {
    let target = progress(connection).await?.applied;
    wait_for(connection, limit, |now| now.confirmed.is_some_and(|confirmed| confirmed >= target)).await
}

async fn wait_for(
    connection: &mut Connection,
    limit: Duration,
    is_reached: impl Fn(Progress) -> bool,
) -> Result<(), MajorityError> {
    let began = clock::now();
    while !is_reached(progress(connection).await?) {
        if u128::from(clock::now().since(began)) >= limit.as_nanos() {
            return Err(MajorityError::Lagging(limit));
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Ok(())
}

/// Waits until a majority has all writes that the primary had at the call: until then, a document acknowledged by one member
/// alone is not visible at majority. An update that matches nothing waits for the last operation of the system (MongoDB,
/// `src/mongo/db/repl/repl_client_info.h`, `setLastOpToSystemLastOpTime`). A standalone server needs no waiting.
///
/// # Errors
/// [`MajorityError::Behind`] if the wait takes longer than 100 s; else the server's refusal.
pub async fn catch_up(connection: &mut Connection, namespace: &Namespace) -> Result<(), MajorityError> {
    if !connection.hello().is_replicated() {
        return Ok(());
    }
    let nothing = rawdoc! {"q": {"_id": "plimsoll: no document has this id"}, "u": {"$set": {"plimsoll": 1}}};
    let update = rawdoc! {
        "update": namespace.collection.as_str(),
        "updates": [nothing],
        "writeConcern": {"w": "majority", "wtimeout": CATCH_UP_MS},
    };
    let reply = connection.command(&namespace.db, &update).await?;
    match reply.get_document("writeConcernError") {
        Ok(error) => {
            Err(MajorityError::Behind(error.get_str("errmsg").unwrap_or("no reason given").to_owned()))
        }
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, Timestamp, doc};

    use super::*;

    fn at(time: u32, term: i64) -> bson::Document {
        doc! {"ts": Timestamp {time, increment: 3}, "t": term}
    }

    #[test]
    fn a_greeting_tells_the_progress_of_a_member() {
        let check = |hello: bson::Document, expected| {
            assert_eq!(Progress::of(&RawDocumentBuf::try_from(hello).unwrap()), expected);
        };
        let last = doc! {"opTime": at(9, 2), "majorityOpTime": at(8, 2)};
        let (applied, confirmed) = (Position(2, 9, 3), Some(Position(2, 8, 3)));
        check(
            doc! {"secondary": true, "lastWrite": last},
            Some(Progress { applied, confirmed, is_readable: true }),
        );
        let recovering = doc! {"secondary": false, "lastWrite": {"opTime": at(9, 2)}};
        check(recovering, Some(Progress { applied, confirmed: None, is_readable: false }));
        check(doc! {"isWritablePrimary": true}, None);
    }

    #[test]
    fn a_later_term_is_a_later_position() {
        assert!(Position(2, 1, 1) > Position(1, 9, 9) && Position(2, 1, 2) > Position(2, 1, 1));
    }
}
