//! Runs the faulty server. It stores documents in memory, and forgets, corrupts or duplicates a stated share
//! of them, or drops them from an index. It executes a stated share of the transactions only in part, and
//! forgets or repeats a stated share of the updates.
//!
//! It acknowledges every document and keeps an exact log of its defects, so that a test can compare an audit
//! with the log. It supports `insert` (with duplicate keys), `update` (a replacement, or `$inc` and `$set` by
//! `_id`, or an update that matches nothing), `find` (all, by `_id`, or by a range of `_id`s), `getMore`,
//! `killCursors`, `count`, `drop`, `create`, `listCollections`, `createIndexes`, `listIndexes`, transactions
//! of inserts, and the commands of every server. It refuses all other commands and options.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::Bson;
use bson::oid::ObjectId;
use plimsoll_measure::clock::{self, Instant};

use crate::serve::{AnswerDelay, Listener, Request, Service};

pub use crate::serve::Error;

mod collection;
pub(crate) mod commands;
mod cursor;
mod filter;
pub(crate) mod flip;
mod index;
mod insert;
pub(crate) mod store;
pub(crate) mod transaction;
mod update;

use store::Store;

/// The defects of a faulty server. Documents are numbered from 1 over all connections, in insertion order;
/// refused duplicates are not counted. One of every n consecutive documents is damaged: the last, or with a
/// seed a random document. A document has at most one defect: forgetting comes before flipping, flipping
/// before duplicating, duplicating before dropping from an index. Zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    /// Acknowledge every n-th document without storing it.
    pub forget_every: Option<u64>,
    /// Flip one bit of the content of every n-th document. A document with only an `_id` is left alone.
    pub flip_every: Option<u64>,
    /// Store every n-th document a second time, under a new ObjectId.
    pub duplicate_every: Option<u64>,
    /// Store only the first half of every n-th transaction, and leave its outcome unknown.
    pub half_every: Option<u64>,
    /// Acknowledge every n-th update without applying it. Updates are numbered from 1, apart from documents.
    pub forget_update_every: Option<u64>,
    /// Apply every n-th update twice.
    pub repeat_update_every: Option<u64>,
    /// Apply every n-th update of several counters without its last increment.
    pub tear_update_every: Option<u64>,
    /// Apply every n-th update and leave its outcome unknown: the answer says that the wait for its write concern ended early.
    pub doubt_update_every: Option<u64>,
    /// Drop every n-th document from the newest index of its collection, or from the `_id` index if no other
    /// exists.
    pub unindex_every: Option<u64>,
    /// Return an old version from every n-th find by `_id`, counting only documents that another connection
    /// updated last: the version before that update.
    pub stale_read_every: Option<u64>,
    /// The seed of the choice among n consecutive documents; without a seed the last is chosen.
    pub seed: Option<u64>,
}

/// The settings of a faulty server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The defects to introduce.
    pub defects: Defects,
    /// The limit of bytes for documents, keys and log. Above it the server refuses documents with code 146.
    pub memory_bytes_max: u64,
}

impl Default for Options {
    /// No defects, 2 GiB.
    fn default() -> Self {
        Options { defects: Defects::default(), memory_bytes_max: 2 << 30 }
    }
}

/// A damaged document.
#[derive(Clone, Debug, PartialEq)]
pub struct DamagedDocument {
    /// The document's number in insertion order, from 1.
    pub number: u64,
    /// `database.collection`.
    pub namespace: String,
    /// The document's `_id`.
    pub id: Bson,
}

/// A flipped bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// The document.
    pub victim: DamagedDocument,
    /// The position of the byte in the document, from 0.
    pub byte: usize,
    /// The mask of the flipped bit.
    pub mask: u8,
}

/// A document that the server stored twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// The document.
    pub victim: DamagedDocument,
    /// The `_id` of the copy.
    pub copy: ObjectId,
}

/// All defects, in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefectLog {
    /// Documents that were acknowledged and not stored.
    pub forgotten: Vec<DamagedDocument>,
    /// Documents that were stored with a flipped bit.
    pub flipped: Vec<Flip>,
    /// Documents that were stored twice.
    pub duplicated: Vec<Duplicate>,
    /// The first missing document of each transaction that was stored in part.
    pub halved: Vec<DamagedDocument>,
    /// Documents that were stored and dropped from an index.
    pub unindexed: Vec<DamagedDocument>,
    /// The documents of stale reads.
    pub stale_reads: Vec<DamagedDocument>,
    /// The documents of updates that were acknowledged and not applied.
    pub forgotten_updates: Vec<DamagedDocument>,
    /// The documents of updates that were applied twice.
    pub repeated_updates: Vec<DamagedDocument>,
    /// The documents of updates that were applied in part.
    pub torn_updates: Vec<DamagedDocument>,
}

/// A faulty server on a free port of 127.0.0.1. Dropping it closes its connections, ends its threads and
/// frees its documents.
#[derive(Debug)]
pub struct Server {
    listener: Listener<FaultyService>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// [`Error`] if no port is available.
    pub fn start(options: Options) -> Result<Self, Error> {
        let store = Mutex::new(Store::new(options));
        Ok(Server { listener: Listener::open(FaultyService { store }, AnswerDelay::default())? })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// A copy of the defects so far.
    pub fn record(&self) -> DefectLog {
        self.listener.service().store().record().clone()
    }

    /// The number of documents acknowledged as inserted so far.
    pub fn acknowledged(&self) -> u64 {
        self.listener.service().store().inserted()
    }

    /// Withholds all answers for `length` from now on.
    pub fn freeze(&self, length: Duration) {
        self.freeze_from(clock::now(), length);
    }

    /// Withholds all answers for `length` from the moment `from` on. A new freeze replaces an earlier one.
    pub fn freeze_from(&self, from: Instant, length: Duration) {
        self.listener.answer_delay().freeze(from, length);
    }
}

#[derive(Debug)]
struct FaultyService {
    store: Mutex<Store>,
}

impl FaultyService {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for FaultyService {
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        commands::answer(&mut self.store(), request, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::client::Client;
    use bson::{Document, RawDocumentBuf, doc, rawdoc};
    use std::net::TcpStream;

    fn start(defects: Defects) -> (Server, Client) {
        let server = Server::start(Options { defects, ..Options::default() }).unwrap();
        let client = Client::of(server.address());
        (server, client)
    }

    fn insert(client: &mut Client, ids: std::ops::Range<i32>) -> Document {
        let documents: Vec<Document> = ids.map(|id| doc! {"_id": id, "x": id}).collect();
        let command = doc! {"insert": "c", "documents": documents, "ordered": false, "$db": "d"};
        client.ask(&RawDocumentBuf::try_from(command).unwrap())
    }

    /// Reads everything, batch by batch.
    fn scan(client: &mut Client, batch: i32) -> Vec<i32> {
        let mut reply = client.ask(&rawdoc! {"find": "c", "filter": {}, "batchSize": batch, "$db": "d"});
        let mut ids = Vec::new();
        let mut name = "firstBatch";
        loop {
            let cursor = reply.get_document("cursor").unwrap();
            let documents = cursor.get_array(name).unwrap();
            ids.extend(
                documents.iter().map(|document| document.as_document().unwrap().get_i32("_id").unwrap()),
            );
            match cursor.get_i64("id").unwrap() {
                0 => return ids,
                id => {
                    reply = client
                        .ask(&rawdoc! {"getMore": id, "collection": "c", "batchSize": batch, "$db": "d"})
                }
            }
            name = "nextBatch";
        }
    }

    #[test]
    fn a_server_without_defects_returns_everything_in_any_batch_size() {
        let (_server, mut client) = start(Defects::default());
        assert_eq!(insert(&mut client, 0..250), doc! {"n": 250, "ok": 1.0});
        for batch in [1, 7, 249, 250, 1000] {
            assert_eq!(scan(&mut client, batch), (0..250).collect::<Vec<_>>(), "batch {batch}");
        }
    }

    #[test]
    fn forgotten_documents_are_missing() {
        let (server, mut client) = start(Defects { forget_every: Some(100), ..Defects::default() });
        assert_eq!(insert(&mut client, 0..1000).get_i32("n").unwrap(), 1000);
        let found = scan(&mut client, 1000);
        let missing: Vec<Bson> = (0..1000).filter(|id| !found.contains(id)).map(Bson::Int32).collect();
        let forgotten: Vec<Bson> = server.record().forgotten.into_iter().map(|victim| victim.id).collect();
        assert_eq!(missing, forgotten);
        assert_eq!((forgotten.len(), server.acknowledged()), (10, 1000));
    }

    #[test]
    fn a_duplicate_key_is_a_write_error_with_its_index() {
        let (_server, mut client) = start(Defects::default());
        insert(&mut client, 0..5);
        let reply = insert(&mut client, 4..7);
        assert_eq!(reply.get_i32("n").unwrap(), 2);
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
        assert_eq!((error.get_i32("index").unwrap(), error.get_i32("code").unwrap()), (0, 11000));
    }

    #[test]
    fn a_transaction_is_stored_at_its_commit_and_one_in_n_only_in_part() {
        let (server, mut client) = start(Defects { half_every: Some(2), ..Defects::default() });
        let lsid = rawdoc! {"id": 1};
        let mut done = |number: i64, ids: [i32; 3], end: &str| {
            let documents: Vec<Document> = ids.iter().map(|id| doc! {"_id": *id}).collect();
            let insert = doc! {"insert": "c", "documents": documents, "$db": "d", "lsid": {"id": 1},
            "txnNumber": number, "startTransaction": true, "autocommit": false};
            assert_eq!(client.ask(&RawDocumentBuf::try_from(insert).unwrap()).get_i32("n").unwrap(), 3);
            let end = doc! {end: 1, "$db": "admin", "lsid": Document::try_from(&*lsid).unwrap(),
            "txnNumber": number, "autocommit": false};
            let answer = client.ask(&RawDocumentBuf::try_from(end).unwrap());
            (scan(&mut client, 100).len(), answer.contains_key("writeConcernError"))
        };
        assert_eq!(done(1, [0, 1, 2], "commitTransaction"), (3, false));
        assert_eq!(done(2, [3, 4, 5], "abortTransaction"), (3, false));
        assert_eq!(done(3, [6, 7, 8], "commitTransaction"), (4, true));
        assert_eq!(done(4, [9, 10, 11], "commitTransaction"), (7, false));
        let halved: Vec<Bson> = server.record().halved.into_iter().map(|victim| victim.id).collect();
        assert_eq!(halved, [Bson::Int32(7)]);
    }

    #[test]
    fn forgotten_updates_are_missing_and_repeated_ones_are_applied_twice() {
        let defects =
            Defects { forget_update_every: Some(5), repeat_update_every: Some(3), ..Defects::default() };
        let (server, mut client) = start(defects);
        insert(&mut client, 0..1);
        for _ in 0..15 {
            let updates = vec![doc! {"q": {"_id": 0}, "u": {"$inc": {"x": 1}}}];
            let update = doc! {"update": "c", "updates": updates, "$db": "d"};
            let reply = client.ask(&RawDocumentBuf::try_from(update).unwrap());
            assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
        }
        let reply = client.ask(&rawdoc! {"find": "c", "$db": "d"});
        let stored = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let numbers = |victims: Vec<DamagedDocument>| victims.iter().map(|it| it.number).collect::<Vec<_>>();
        let record = server.record();
        assert_eq!(numbers(record.forgotten_updates), [5, 10, 15]);
        assert_eq!(numbers(record.repeated_updates), [3, 6, 9, 12]);
        assert_eq!(stored, &[Bson::Document(doc! {"_id": 0, "x": 15 - 3 + 4})]);
    }

    #[test]
    fn an_unindexed_document_is_missing_from_scans_through_the_newest_index_only() {
        let (server, mut client) = start(Defects { unindex_every: Some(4), ..Defects::default() });
        let index = rawdoc! {"key": {"x": 1}, "name": "x_1"};
        client.ask(&rawdoc! {"createIndexes": "c", "indexes": [index], "$db": "d"});
        insert(&mut client, 0..9);
        let mut through = |name: &str| {
            let find = rawdoc! {"find": "c", "hint": name, "projection": {"_id": 1}, "$db": "d"};
            let reply = client.ask(&find);
            let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
            found.iter().map(|it| it.as_document().unwrap().clone()).collect::<Vec<_>>()
        };
        let ids = |ids: &[i32]| ids.iter().map(|id| doc! {"_id": id}).collect::<Vec<_>>();
        assert_eq!(through("x_1"), ids(&[0, 1, 2, 4, 5, 6, 8]));
        assert_eq!(through("_id_"), ids(&[0, 1, 2, 3, 4, 5, 6, 7, 8]));
        let dropped: Vec<_> = server.record().unindexed.into_iter().map(|victim| victim.id).collect();
        assert_eq!(dropped, [Bson::Int32(3), Bson::Int32(7)]);
        let listed = client.ask(&rawdoc! {"listIndexes": "c", "$db": "d"}).to_string();
        assert!(listed.contains("_id_") && listed.contains("x_1"), "{listed}");
        let unknown = client.ask(&rawdoc! {"find": "c", "hint": "y_1", "$db": "d"});
        assert_eq!(unknown.get_i32("code").unwrap(), 2);
    }

    #[test]
    fn stale_reads_are_those_of_other_connections() {
        let (server, mut writer) = start(Defects { stale_read_every: Some(2), ..Defects::default() });
        insert(&mut writer, 0..2);
        let updates = vec![doc! {"q": {"_id": 0}, "u": {"$inc": {"x": 1}}}];
        let update = doc! {"update": "c", "updates": updates, "$db": "d"};
        writer.ask(&RawDocumentBuf::try_from(update).unwrap());
        let read = |client: &mut Client, id: i32| {
            let reply = client.ask(&rawdoc! {"find": "c", "filter": {"_id": id}, "$db": "d"});
            let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].clone();
            found.as_document().unwrap().get_i32("x").unwrap()
        };
        assert_eq!((0..4).map(|_| read(&mut writer, 0)).collect::<Vec<_>>(), [1, 1, 1, 1]);
        let mut other = Client::of(server.address());
        assert_eq!((0..4).map(|_| read(&mut other, 0)).collect::<Vec<_>>(), [1, 0, 1, 0]);
        assert_eq!((0..4).map(|_| read(&mut other, 1)).collect::<Vec<_>>(), [1, 1, 1, 1]);
        assert_eq!(server.record().stale_reads.len(), 2);
    }

    #[test]
    fn above_its_memory_limit_it_refuses_documents() {
        let server = Server::start(Options { memory_bytes_max: 2000, ..Options::default() }).unwrap();
        let reply = insert(&mut Client::of(server.address()), 0..100);
        let errors = reply.get_array("writeErrors").unwrap();
        let stored = usize::try_from(reply.get_i32("n").unwrap()).unwrap();
        assert_eq!(stored + errors.len(), 100);
        assert_eq!(errors[0].as_document().unwrap().get_i32("code").unwrap(), 146);
    }

    #[test]
    fn one_document_is_found_by_its_id_and_all_are_counted_listed_and_dropped() {
        let (_server, mut client) = start(Defects::default());
        insert(&mut client, 0..9);
        let reply = client.ask(&rawdoc! {"find": "c", "filter": {"_id": 3}, "$db": "d"});
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_array("firstBatch").unwrap(), &[Bson::Document(doc! {"_id": 3, "x": 3})]);
        assert_eq!(cursor.get_i64("id").unwrap(), 0);
        assert_eq!(client.ask(&rawdoc! {"count": "c", "$db": "d"}).get_i32("n").unwrap(), 9);
        assert_eq!(
            client.ask(&rawdoc! {"count": "c", "query": {"_id": 77}, "$db": "d"}).get_i32("n").unwrap(),
            0
        );
        let listed = client.ask(&rawdoc! {"listCollections": 1, "$db": "d"});
        assert!(listed.to_string().contains("\"c\""));
        assert_eq!(client.ask(&rawdoc! {"drop": "c", "$db": "d"}).get_f64("ok").unwrap(), 1.0);
        assert_eq!(scan(&mut client, 5), Vec::<i32>::new());
    }

    #[test]
    fn limits_and_killed_cursors_end_a_scan() {
        let (_server, mut client) = start(Defects::default());
        insert(&mut client, 0..50);
        let limited = client.ask(&rawdoc! {"find": "c", "batchSize": 20, "limit": 20, "$db": "d"});
        assert_eq!(limited.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
        let open = client.ask(&rawdoc! {"find": "c", "batchSize": 20, "$db": "d"});
        let id = open.get_document("cursor").unwrap().get_i64("id").unwrap();
        client.ask(&rawdoc! {"killCursors": "c", "cursors": [id], "$db": "d"});
        let gone = client.ask(&rawdoc! {"getMore": id, "collection": "c", "$db": "d"});
        assert_eq!(gone.get_i32("code").unwrap(), 43);
    }

    #[test]
    fn unsupported_options_are_refused() {
        let (_server, mut client) = start(Defects::default());
        for command in [
            rawdoc! {"find": "c", "filter": {"x": 1}, "$db": "d"},
            rawdoc! {"find": "c", "sort": {"x": 1}, "$db": "d"},
            rawdoc! {"find": "c", "skip": 5, "$db": "d"},
            rawdoc! {"count": "c", "query": {"x": 1}, "$db": "d"},
        ] {
            assert_eq!(client.ask(&command).get_i32("code").unwrap(), 238, "{command:?}");
        }
    }

    #[test]
    fn a_dropped_server_closes_its_connections() {
        let (server, _client) = start(Defects::default());
        let address = server.address();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}
