//! Provides a server, queries, batches and a driver of sinks for the tests.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server};
use plimsoll_measure::clock;
use plimsoll_pipeline::{Batch, Failure, Partition, Position, Record, Refused, Sink, SinkFactory, Verdict};
use plimsoll_stores::positions::Positions;
use plimsoll_stores::scenario;
use plimsoll_wire::{ConnectOptions, Connection};

/// The time limit for an expected event.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A server for one test only.
pub fn start() -> Server {
    start_with(Vec::new())
}

/// A server for one test only, which has no change streams.
pub fn standalone() -> Server {
    start_with(vec!["--standalone".into()])
}

fn start_with(args: Vec<OsString>) -> Server {
    let cache = Cache::locate().unwrap();
    assert!(embedded::is_installed(&cache), "run cargo xtask setup first");
    let (profile, cache_bytes) = (Profile::Journaled, Some(128 << 20));
    let options = Options { profile, cache_bytes, args, ..Options::default() };
    embedded::start(&cache, &options).unwrap()
}

/// The shared server. Each test uses its own database.
pub fn shared() -> Arc<Server> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(start());
        *shared = Arc::downgrade(&server);
        server
    })
}

pub fn uri(server: &Server) -> String {
    format!("mongodb://{}/?directConnection=true", server.address())
}

/// Runs a command.
pub fn ask(server: &Server, db: &str, command: Document) -> Document {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
        let mut connection = Connection::connect(&options).await.unwrap();
        let reply = connection.command(db, &RawDocumentBuf::try_from(command).unwrap()).await.unwrap();
        Document::try_from(&*reply).unwrap()
    })
}

/// The documents of a collection in the order of `_id`, as many as fit one reply.
pub fn documents(server: &Server, db: &str, collection: &str) -> Vec<Document> {
    let find = doc! {"find": collection, "sort": {"_id": 1}, "batchSize": 1_000_000, "singleBatch": true};
    let reply = ask(server, db, find);
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|found| found.as_document().unwrap().clone()).collect()
}

/// The number of documents in a collection.
pub fn count(server: &Server, db: &str, collection: &str) -> u64 {
    let reply = ask(server, db, doc! {"count": collection, "query": {}});
    let n = reply.get_i64("n").or_else(|_| reply.get_i32("n").map(i64::from)).unwrap();
    u64::try_from(n).unwrap()
}

/// The positions of the pipeline `p`, in the collection `positions`.
pub fn positions(server: &Server, db: &str) -> Positions {
    positions_of(server, db, "p")
}

pub fn positions_of(server: &Server, db: &str, pipeline: &str) -> Positions {
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.positions"}}"#, uri(server));
    serde_json::from_str::<scenario::Positions>(&typed).unwrap().build(pipeline).unwrap()
}

/// Creates a unique index.
pub fn unique(server: &Server, db: &str, collection: &str, field: &str) {
    let index = doc! {"key": {field: 1}, "name": format!("{field}_1"), "unique": true};
    ask(server, db, doc! {"createIndexes": collection, "indexes": [index]});
}

/// The payload of a test event: a BSON document with its offset.
pub fn payload(offset: u64) -> Vec<u8> {
    doc! {"n": offset as i64, "text": format!("event {offset}")}.to_vec().unwrap()
}

/// A batch of events with offsets from `first` up to `end`, exclusive, keyed by their offset.
pub fn batch(topic: &str, partition: u32, first: u64, end: u64) -> Batch {
    let mut batch = Batch::new(Partition::new(topic, partition));
    for offset in first..end {
        let (key, payload) = (offset.to_string(), payload(offset));
        batch.push(Record {
            offset,
            appended_ms: 1000 + offset,
            key: Some(key.as_bytes()),
            payload: Some(&payload),
        });
    }
    batch.set_position(Position::at(end));
    batch
}

/// A separate sink.
pub fn sink(factory: &dyn SinkFactory) -> Box<dyn Sink> {
    factory.build(0).unwrap()
}

/// The next batch that the sink returns.
pub fn settled(sink: &mut dyn Sink) -> (Batch, Verdict) {
    let start = clock::now();
    loop {
        if let Some(settled) = sink.settle(Duration::from_millis(50)) {
            return (settled.batch, settled.verdict);
        }
        assert!(u128::from(clock::now().since(start)) < LIMIT.as_nanos(), "the sink returns no batch");
    }
}

/// Submits one batch and waits for its verdict.
pub fn write(sink: &mut dyn Sink, batch: Batch) -> Verdict {
    sink.submit(batch);
    sink.flush();
    settled(sink).1
}

/// Submits a batch until it is written, like the engine after transient failures. Returns the number of events that existed
/// before.
pub fn write_through(sink: &mut dyn Sink, mut batch: Batch) -> u32 {
    let start = clock::now();
    loop {
        sink.submit(batch);
        sink.flush();
        let (back, verdict) = settled(sink);
        match verdict {
            Verdict::Written { replayed, refused } => {
                assert_eq!(refused, []);
                return replayed;
            }
            Verdict::Failed(Failure { reason, .. }) => {
                assert!(
                    u128::from(clock::now().since(start)) < LIMIT.as_nanos(),
                    "it does not pass: {reason}"
                );
            }
            Verdict::Revoked => panic!("left"),
        }
        batch = back;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The refused events of a verdict, by index.
pub fn refused(verdict: &Verdict) -> Vec<u32> {
    match verdict {
        Verdict::Written { refused, .. } => refused.iter().map(|Refused { index, .. }| *index).collect(),
        Verdict::Failed(failure) => panic!("{failure:?}"),
        Verdict::Revoked => panic!("left"),
    }
}
