//! Damages a stored record: the source stops before it and reports it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use plimsoll_kafka::Source;
use plimsoll_pipeline::guarantee::Guarantee;
use rdkafka::producer::{BaseRecord, Producer};

use crate::support::{LONG, broker, committed, from, parts, producer, put, settings, start, topic, until};
use crate::unwritten_batch::unwritten_batch;

/// The broker's file with the first records of a topic of one partition.
fn segment(storage: &Path, topic: &str) -> PathBuf {
    let entries = |of: &Path| fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut open = vec![storage.to_owned()];
    while let Some(directory) = open.pop() {
        let found = directory.join(format!("{topic}-0/00000000000000000000.log"));
        if found.exists() {
            return found;
        }
        open.extend(entries(&directory).filter(|path| path.is_dir()));
    }
    panic!("{topic} has no file below {}", storage.display());
}

/// Changes one byte of `text` in a file.
fn alter(path: &Path, text: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"!", at as u64).unwrap();
}

#[test]
fn a_record_with_a_wrong_checksum_is_not_skipped() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "damaged", 1);
    let producer = producer(&brokers);
    // Each record is flushed, and so becomes its own batch.
    for text in ["before", "within", "after"] {
        put(&producer, BaseRecord::to(&source).partition(0).key("k").payload(text));
        producer.flush(LONG).unwrap();
    }
    alter(&segment(broker().storage(), &source), b"within");
    let typed = from(&brokers, &source, "damaged");
    let sink = unwritten_batch(u64::MAX);
    let written = sink.written();
    let running = start(
        parts(Box::new(Source::build(&typed).unwrap()), Box::new(sink)),
        settings(Guarantee::AtLeastOnce),
    );
    until("its end", || {
        assert!(written.load(Ordering::Relaxed) <= 1, "a record was skipped");
        running.pipeline.is_finished()
    });
    let error = running.pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("a record of \"damaged\" cannot be read"), "{error}");
    assert_eq!(written.load(Ordering::Relaxed), 1, "the record before it is written");
    assert_eq!(committed(&brokers, &source, "damaged")[&0], 1);
}
