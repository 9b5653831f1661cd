//! Translates the `serverStatus` of different products and versions into a [`ServerSample`].
//!
//! The names are those of MongoDB's manual ("serverStatus") and of WiredTiger's `dist/stat_data.py`. Values
//! that moved between versions are read from either position. Values that a version does not report stay
//! absent.

use bson::RawDocument;
use bson::raw::RawBsonRef;
use plimsoll_measure::sample::ServerSample;

use super::field::{at, count, milliseconds};

/// A server's product. Some products report counters that do not match their names; these are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// MongoDB, or a server that does not name its product.
    MongoDb,
    /// SecantusDB, the embedded server. Its `wiredTiger` section, `network` and most `opcounters` move with
    /// the load. Its `opcounters.insert` counts commands where MongoDB counts documents.
    SecantusDb,
}

impl Product {
    /// Reads the product from the answer to `buildInfo`.
    pub fn of(build_info: &RawDocument) -> Self {
        match build_info.get("secantusVersion") {
            Ok(Some(_)) => Product::SecantusDb,
            _ => Product::MongoDb,
        }
    }
}

/// Reads the counters from an answer to `serverStatus`. The caller adds the time and the process's own
/// figures.
pub fn normalise(status: &RawDocument, product: Product) -> ServerSample {
    let mut sample = ServerSample::default();
    clients(status, product, &mut sample);
    cache(status, &mut sample);
    tickets(status, &mut sample);
    // MongoDB's own count, `metrics.operation.writeConflicts`, is part of a section of hundreds of kilobytes.
    sample.write_conflicts = count(status, &["wiredTiger", "transaction", "update conflicts"]);
    checkpoints(status, &mut sample);
    journal(status, &mut sample);
    replication(status, &mut sample);
    sample
}

fn clients(status: &RawDocument, product: Product, sample: &mut ServerSample) {
    let operations = |name| count(status, &["opcounters", name]);
    sample.connections = count(status, &["connections", "current"]);
    sample.inserts = operations("insert").filter(|_| product != Product::SecantusDb);
    sample.queries = operations("query");
    sample.updates = operations("update");
    sample.deletes = operations("delete");
    sample.commands = operations("command");
    sample.network_in_bytes = count(status, &["network", "bytesIn"]);
    sample.network_out_bytes = count(status, &["network", "bytesOut"]);
}

fn cache(status: &RawDocument, sample: &mut ServerSample) {
    let cache = |name| count(status, &["wiredTiger", "cache", name]);
    sample.cache_bytes = cache("bytes currently in the cache");
    sample.cache_bytes_max = cache("maximum bytes configured");
    sample.cache_dirty_bytes = cache("tracked dirty bytes in the cache");
    sample.cache_read_bytes = cache("bytes read into cache");
    sample.cache_written_bytes = cache("bytes written from cache");
    // Since 8.0 the counter includes failed attempts: the thread did not serve its client in either case.
    sample.cache_application_evictions = cache("pages evicted by application threads")
        .or_else(|| cache("page evict attempts by application threads"));
    sample.cache_application_read_us = cache("application threads page read from disk to cache time (usecs)");
    sample.cache_application_write_us =
        cache("application threads page write from cache to disk time (usecs)");
    sample.cache_application_wait_us =
        count(status, &["wiredTiger", "thread-yield", "application thread time waiting for cache (usecs)"]);
    sample.disk_written_bytes = count(status, &["wiredTiger", "block-manager", "bytes written"]);
    sample.disk_read_bytes = count(status, &["wiredTiger", "block-manager", "bytes read"]);
}

/// Reads the tickets: in `queues.execution` since MongoDB 8.0, in `wiredTiger.concurrentTransactions` before.
fn tickets(status: &RawDocument, sample: &mut ServerSample) {
    let either = |side, path: &[&str]| {
        let new = [&["queues", "execution", side], path].concat();
        let old = [&["wiredTiger", "concurrentTransactions", side], path].concat();
        count(status, &new).or_else(|| count(status, &old))
    };
    sample.write_tickets_out = either("write", &["out"]);
    sample.write_tickets_max = either("write", &["totalTickets"]);
    sample.write_tickets_waiting = either("write", &["normalPriority", "queueLength"]);
    sample.read_tickets_out = either("read", &["out"]);
    sample.read_tickets_max = either("read", &["totalTickets"]);
    sample.read_tickets_waiting = either("read", &["normalPriority", "queueLength"]);
}

/// Reads the checkpoint counters: in the section `checkpoint` since MongoDB 8.0 (WiredTiger 11.3), in
/// `transaction` before.
fn checkpoints(status: &RawDocument, sample: &mut ServerSample) {
    let either = |new, old| {
        count(status, &["wiredTiger", "checkpoint", new])
            .or_else(|| count(status, &["wiredTiger", "transaction", old]))
    };
    sample.checkpoints = either("total succeed number of checkpoints", "transaction checkpoints");
    sample.checkpoint_last_ms =
        either("most recent time (msecs)", "transaction checkpoint most recent time (msecs)");
    sample.checkpoint_running =
        either("progress state", "transaction checkpoint currently running").map(|state| state != 0);
}

fn journal(status: &RawDocument, sample: &mut ServerSample) {
    let log = |name| count(status, &["wiredTiger", "log", name]);
    sample.journal_syncs = log("log sync operations");
    sample.journal_sync_us = log("log sync time duration (usecs)");
    sample.journal_bytes = log("log bytes written");
}

/// Flow control and the majority's lag. Both times in `repl.lastWrite` are the primary's, in whole seconds.
fn replication(status: &RawDocument, sample: &mut ServerSample) {
    sample.flow_control_us = count(status, &["flowControl", "timeAcquiringMicros"]);
    sample.flow_control_lagged_us = count(status, &["flowControl", "isLaggedTimeMicros"]);
    let written = |name| milliseconds(status, &["repl", "lastWrite", name]);
    let ends = written("lastWriteDate").zip(written("majorityWriteDate"));
    sample.replication_lag_ms = ends.map(|(last, majority)| last.saturating_sub(majority));
}

/// The storage engine's name in an answer to `serverStatus`.
pub(crate) fn storage_engine(status: &RawDocument) -> Option<String> {
    at(status, &["storageEngine", "name"]).and_then(RawBsonRef::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, RawDocumentBuf};

    fn fixture(json: &str) -> RawDocumentBuf {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let bson = bson::Bson::try_from(json).unwrap();
        RawDocumentBuf::try_from(bson.as_document().unwrap().clone()).unwrap()
    }

    fn mongod_7() -> RawDocumentBuf {
        fixture(include_str!("fixtures/mongod-7.json"))
    }

    fn mongod_8() -> RawDocumentBuf {
        fixture(include_str!("fixtures/mongod-8.json"))
    }

    fn embedded() -> RawDocumentBuf {
        fixture(include_str!("fixtures/secantus.json"))
    }

    /// The values of both `mongod` fixtures under our names.
    fn expected() -> ServerSample {
        ServerSample {
            connections: Some(12),
            inserts: Some(250_000),
            queries: Some(40),
            updates: Some(30),
            deletes: Some(20),
            commands: Some(900),
            network_in_bytes: Some(52_000_000),
            network_out_bytes: Some(1_300_000),
            cache_bytes: Some(291_504_128),
            cache_bytes_max: Some(1_073_741_824),
            cache_dirty_bytes: Some(104_857_600),
            cache_application_evictions: Some(17),
            cache_application_read_us: Some(425_489),
            cache_application_write_us: Some(13_710),
            cache_application_wait_us: Some(2100),
            cache_read_bytes: Some(7_026_557),
            cache_written_bytes: Some(288_311_008),
            read_tickets_out: Some(1),
            read_tickets_max: Some(96),
            write_tickets_out: Some(5),
            write_tickets_max: Some(128),
            checkpoints: Some(3),
            checkpoint_last_ms: Some(214),
            checkpoint_running: Some(true),
            journal_syncs: Some(480),
            journal_sync_us: Some(1_920_000),
            journal_bytes: Some(61_000_000),
            disk_written_bytes: Some(88_000_000),
            disk_read_bytes: Some(50_520_064),
            flow_control_us: Some(1500),
            flow_control_lagged_us: Some(250_000),
            replication_lag_ms: Some(2000),
            ..ServerSample::default()
        }
    }

    #[test]
    fn mongodb_7_and_8_have_the_same_names() {
        assert_eq!(normalise(&mongod_7(), Product::MongoDb), expected());
        // Only the newer fixture contains the operations that wait for a ticket.
        let waiting =
            ServerSample { write_tickets_waiting: Some(3), read_tickets_waiting: Some(0), ..expected() };
        assert_eq!(normalise(&mongod_8(), Product::MongoDb), waiting);
    }

    #[test]
    fn a_wrong_counter_of_the_embedded_server_is_absent() {
        let sample = normalise(&embedded(), Product::SecantusDb);
        assert_eq!(sample.inserts, None);
        assert_eq!((sample.queries, sample.commands), (Some(50), Some(15)));
        assert_eq!(sample.network_in_bytes, Some(41_186_332));
        assert_eq!((sample.cache_bytes, sample.cache_bytes_max), (Some(125_991_305), Some(4_294_967_296)));
        assert_eq!((sample.journal_syncs, sample.journal_bytes), (Some(20), Some(137_368_320)));
        assert_eq!((sample.checkpoints, sample.checkpoint_running), (Some(0), Some(false)));
        assert_eq!(
            (sample.cache_application_evictions, sample.cache_application_wait_us),
            (Some(0), Some(0))
        );
        assert_eq!((sample.cache_read_bytes, sample.cache_written_bytes), (Some(0), Some(8_093_696)));
        assert_eq!((sample.write_tickets_out, sample.read_tickets_out), (None, None));
        assert_eq!((sample.flow_control_us, sample.replication_lag_ms), (None, None));
    }

    #[test]
    fn unreported_values_are_absent_and_not_zero() {
        assert_eq!(normalise(&RawDocumentBuf::new(), Product::MongoDb), ServerSample::default());
    }

    #[test]
    fn every_prefix_of_an_answer_is_read_without_a_panic() {
        let whole = Document::try_from(&*mongod_8()).unwrap();
        for count in 0..whole.len() {
            let part: Document = whole.clone().into_iter().take(count).collect();
            normalise(&RawDocumentBuf::try_from(part).unwrap(), Product::MongoDb);
        }
    }

    #[test]
    fn the_product_is_read_from_build_info() {
        assert_eq!(
            Product::of(&bson::rawdoc! {"version": "8.2.11", "secantusVersion": "0.5"}),
            Product::SecantusDb
        );
        assert_eq!(Product::of(&bson::rawdoc! {"version": "8.2.11"}), Product::MongoDb);
    }
}
