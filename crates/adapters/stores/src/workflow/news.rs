//! Hears of starts and signals from other processes by a change stream. News may be lost: a scan finds all work.
//!
//! The stream is read on a separate connection, and only when a worker waits for news. So one reply of the server is all that it keeps in memory.

use std::collections::BTreeSet;
use std::future::pending;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::raw::RawBsonRef;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc};
use plimsoll_deployment::{Error, is_transient_code};
use plimsoll_wire::{Connection, Error as WireError};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::pool::{PATIENCE, Pool};
use super::{batch, cursor};
use crate::reply::number;

/// Events in one reply at most.
const EVENTS_MAX: i32 = 1_000;
/// The longest time for which the server waits for an event.
const WAIT: Duration = Duration::from_secs(20);
/// The time in which news gathers for one reply, after another reply.
const GATHER: Duration = Duration::from_millis(5);
/// The time after a lost connection or stream.
const AGAIN: Duration = Duration::from_secs(1);
/// The time after the refusal of a stream, for example because a right is missing.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);
/// Codes of servers without change streams: IllegalOperation, CommandNotFound, CommandNotSupported, NotImplemented, an unknown stage, and
/// a server that is no member of a replica set.
const UNSUPPORTED: [i32; 6] = [20, 59, 115, 238, 40324, 40573];

/// Listens to the inserts of other processes.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    stream: Mutex<Stream>,
    is_open: AtomicBool,
}

/// A stream, which is open, or can be resumed.
#[derive(Debug, Default)]
struct Stream {
    /// The connection, and the server's number of the stream.
    open: Option<(Connection, i64)>,
    /// The position after the last event.
    token: Option<RawDocumentBuf>,
    /// The time before the next command.
    pause: Duration,
}

/// The news of one command.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// These partitions have new work.
    Partitions(BTreeSet<u16>),
    /// Every partition may have new work: the stream begins here.
    Beginning,
    /// The stream is lost.
    Lost,
    /// The server has no change streams.
    Unsupported,
}

impl Incoming {
    /// Whether a stream is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The next partitions with new work. Never returns if the server has no change streams.
    pub(super) async fn next(&self, pool: &Pool, partitions: u16) -> Vec<u16> {
        let mut stream = self.stream.lock().await;
        loop {
            sleep(take(&mut stream.pause)).await;
            let heard = match stream.open.take() {
                Some((connection, cursor)) => stream.more(connection, cursor, pool).await,
                None => stream.begin(pool).await,
            };
            self.is_open.store(stream.open.is_some(), Ordering::Relaxed);
            match heard {
                Heard::Partitions(heard) if !heard.is_empty() => return heard.into_iter().collect(),
                Heard::Beginning => return (0..partitions).collect(),
                Heard::Unsupported => pending().await,
                Heard::Partitions(_) | Heard::Lost => {}
            }
        }
    }
}

impl Stream {
    /// Opens a stream at the position of the last one, or now.
    async fn begin(&mut self, pool: &Pool) -> Heard {
        let opened = match pool.connect().await {
            Ok(mut connection) => {
                // The server waits before it answers.
                connection.set_timeout(Some(WAIT + PATIENCE));
                let command = watch(pool.first, self.token.as_deref());
                let reply = connection.command(&pool.db, &command).await;
                reply.map(|reply| (connection, reply)).map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        let resumes = self.token.is_some();
        match opened {
            Ok((connection, reply)) => {
                let heard = self.read(connection, &reply, "firstBatch");
                if resumes { heard } else { Heard::Beginning }
            }
            Err(Error::Wire(WireError::Server(error))) => self.refused(error.code),
            Err(_) => {
                self.pause = AGAIN;
                Heard::Lost
            }
        }
    }

    /// Decides after the refusal of a stream. The server's history may no longer reach back to the position, and then a stream begins anew.
    fn refused(&mut self, code: i32) -> Heard {
        if self.token.take().is_some() {
            return Heard::Lost;
        }
        if UNSUPPORTED.contains(&code) {
            return Heard::Unsupported;
        }
        self.pause = if is_transient_code(code) { AGAIN } else { REFUSED_AGAIN };
        Heard::Lost
    }

    /// Waits for further events.
    async fn more(&mut self, mut connection: Connection, cursor: i64, pool: &Pool) -> Heard {
        let wait_ms = i64::try_from(WAIT.as_millis()).unwrap_or(i64::MAX);
        let command = rawdoc! {"getMore": cursor, "collection": "$cmd.aggregate", "batchSize": EVENTS_MAX, "maxTimeMS": wait_ms};
        match connection.command(&pool.db, &command).await {
            Ok(reply) => self.read(connection, &reply, "nextBatch"),
            Err(_) => {
                self.pause = AGAIN;
                Heard::Lost
            }
        }
    }

    /// Takes the events of a reply.
    fn read(&mut self, connection: Connection, reply: &RawDocument, name: &str) -> Heard {
        let events = batch(reply, name);
        let position = position(reply, &events).or(self.token.take());
        match cursor(reply) {
            // The server ends a stream whose database is dropped: it cannot be resumed.
            0 => self.pause = AGAIN,
            cursor => {
                (self.open, self.token) = (Some((connection, cursor)), position);
                self.pause = if events.is_empty() { Duration::ZERO } else { GATHER };
            }
        }
        Heard::Partitions(events.iter().filter_map(|event| partition(event)).collect())
    }
}

/// The command that opens a stream of inserts by other processes than the one with the number `own`.
fn watch(own: i64, token: Option<&RawDocument>) -> RawDocumentBuf {
    let mut stream = RawDocumentBuf::new();
    if let Some(token) = token {
        stream.append(cstr!("resumeAfter"), token.to_owned());
    }
    let mut collections = RawArrayBuf::new();
    ["instances", "signals"].into_iter().for_each(|name| collections.push(name));
    // Rows of forgotten signals name no process.
    let mut not_of = RawArrayBuf::new();
    not_of.push(own);
    not_of.push(RawBsonRef::Null);
    let wanted = rawdoc! {
        "operationType": "insert", "ns.coll": {"$in": collections}, "fullDocument.f": {"$nin": not_of},
    };
    let mut stages = RawArrayBuf::new();
    stages.push(rawdoc! {"$changeStream": stream});
    stages.push(rawdoc! {"$match": wanted});
    stages.push(rawdoc! {"$project": {"_id": 1, "fullDocument.p": 1}});
    rawdoc! {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": EVENTS_MAX}}
}

/// The position after a reply.
fn position(reply: &RawDocument, events: &[RawDocumentBuf]) -> Option<RawDocumentBuf> {
    let of_reply =
        reply.get_document("cursor").and_then(|cursor| cursor.get_document("postBatchResumeToken"));
    let of_event = || events.last()?.get_document("_id").ok();
    of_reply.ok().or_else(of_event).map(RawDocument::to_owned)
}

/// The partition of an inserted document.
fn partition(event: &RawDocument) -> Option<u16> {
    let inserted = event.get_document("fullDocument").ok()?;
    u16::try_from(number(inserted, "p")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_position_begins_anew_and_a_refused_beginning_waits_or_ends() {
        let check = |token: Option<RawDocumentBuf>, code, heard, pause| {
            let mut stream = Stream { token, ..Stream::default() };
            assert_eq!((stream.refused(code), stream.pause), (heard, pause), "{code}");
            assert_eq!(stream.token, None);
        };
        let token = || Some(rawdoc! {"_data": "82"});
        // ChangeStreamHistoryLost, and a server that was replaced by one without change streams.
        check(token(), 286, Heard::Lost, Duration::ZERO);
        check(token(), 40573, Heard::Lost, Duration::ZERO);
        check(None, 40573, Heard::Unsupported, Duration::ZERO);
        // Unauthorized, and NotWritablePrimary.
        check(None, 13, Heard::Lost, REFUSED_AGAIN);
        check(None, 10107, Heard::Lost, AGAIN);
    }

    #[test]
    fn the_position_is_that_of_the_reply_or_of_its_last_event() {
        let event = |data: &str| rawdoc! {"_id": {"_data": data}, "fullDocument": {"p": 3}};
        let old = rawdoc! {"cursor": {"id": 7_i64}};
        let new = rawdoc! {"cursor": {"id": 7_i64, "postBatchResumeToken": {"_data": "9"}}};
        assert_eq!(position(&new, &[event("1")]), Some(rawdoc! {"_data": "9"}));
        assert_eq!(position(&old, &[event("1"), event("2")]), Some(rawdoc! {"_data": "2"}));
        assert_eq!(position(&old, &[]), None);
        assert_eq!(partition(&event("1")), Some(3));
    }
}
