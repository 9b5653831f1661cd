//! Copies a topic to a topic: the records arrive unchanged.

use std::ffi::CString;

use plimsoll_pipeline::Ended;
use plimsoll_pipeline::guarantee::Guarantee;
use rdkafka::Message;
use rdkafka::message::{Header, Headers, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::support::{
    LONG, audit, broker, committed, copy, counts, ends, fill, from, parts, producer, read, settings, start,
    to, topic, until, until_committed, until_written,
};
use crate::unwritten_batch::unwritten_batch;

/// A record, comparable.
type Plain = (i32, Option<Vec<u8>>, Option<Vec<u8>>, Option<i64>, Vec<(String, Option<Vec<u8>>)>);

fn plain(message: &OwnedMessage) -> Plain {
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    (
        message.partition(),
        message.key().map(<[u8]>::to_vec),
        message.payload().map(<[u8]>::to_vec),
        message.timestamp().to_millis(),
        headers.unwrap_or_default(),
    )
}

#[test]
fn keys_headers_timestamps_and_empty_and_null_payloads_arrive_as_they_were() {
    let brokers = broker().bootstrap();
    let (source, target) = (topic(&brokers, "trip-in", 3), topic(&brokers, "trip-out", 3));
    let producer = producer(&brokers);
    let headers = || {
        let all = OwnedHeaders::new().insert(Header { key: "a", value: Some("1") });
        let all = all.insert(Header { key: "none", value: None::<&str> });
        all.insert(Header { key: "a", value: Some("") })
    };
    for partition in 0..3 {
        let at = || {
            BaseRecord::<str, str>::to(&source)
                .partition(partition)
                .timestamp(1_700_000_000_000 + i64::from(partition))
        };
        producer.send(at().key("key").payload("payload").headers(headers())).unwrap();
        producer.send(at().payload("no key")).unwrap();
        producer.send(at().key("").payload("")).unwrap();
        producer.send(at().key("tombstone")).unwrap();
    }
    producer.flush(LONG).unwrap();
    let running = copy(&from(&brokers, &source, "trip"), &to(&brokers, &target));
    until_written(&brokers, &target, 12);
    assert_eq!(running.end().unwrap(), Ended::Drained);
    let sorted = |topic: &str| {
        let mut all: Vec<Plain> = read(&brokers, topic).iter().map(plain).collect();
        all.sort_by_key(|record| record.0);
        all
    };
    let (before, after) = (sorted(&source), sorted(&target));
    assert_eq!(before.len(), 12);
    assert!(
        before.iter().any(|record| record.2.is_none())
            && before.iter().any(|record| record.2.as_deref() == Some(b""))
    );
    assert_eq!(before, after, "each partition in its order");
}

#[test]
fn drained_records_are_committed_exactly_and_the_next_run_continues_there() {
    let brokers = broker().bootstrap();
    let (source, target) = (topic(&brokers, "exact-in", 4), topic(&brokers, "exact-out", 4));
    fill(&brokers, &source, 4, 500);
    let running = copy(&from(&brokers, &source, "exact"), &to(&brokers, &target));
    until_written(&brokers, &target, 2000);
    running.end().unwrap();
    assert_eq!(committed(&brokers, &source, "exact"), (0..4).map(|partition| (partition, 500)).collect());
    fill(&brokers, &source, 4, 1);
    let running = copy(&from(&brokers, &source, "exact"), &to(&brokers, &target));
    until_committed(&brokers, &source, "exact");
    running.end().unwrap();
    assert_eq!(ends(&brokers, &target).iter().map(|extent| extent.end).sum::<u64>(), 2004);
    let (missing, doubled) = audit(&counts(&read(&brokers, &target)), 4, 500);
    assert_eq!((missing.len(), doubled.len()), (0, 4), "only repeated source records occur twice");
}

#[test]
fn no_offset_is_committed_past_an_unsettled_batch() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "gap-in", 1);
    fill(&brokers, &source, 1, 2000);
    let sink = unwritten_batch(777);
    let written = sink.written();
    let source_port = plimsoll_kafka::Source::build(&from(&brokers, &source, "gap")).unwrap();
    let running = start(parts(Box::new(source_port), Box::new(sink)), settings(Guarantee::AtLeastOnce));
    until("everything but one batch", || written.load(std::sync::atomic::Ordering::Relaxed) >= 1800);
    until("a commit", || !committed(&brokers, &source, "gap").is_empty());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let at = committed(&brokers, &source, "gap")[&0];
    assert!(at <= 777, "{at} lies after a record that is not settled");
    running.control.abort();
    running.pipeline.join().unwrap().unwrap();
    assert!(committed(&brokers, &source, "gap")[&0] <= 777);
}

#[test]
fn a_header_name_that_is_not_utf8_affects_only_its_record() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "name-in", 1);
    let (target, letters) = (topic(&brokers, "name-out", 1), topic(&brokers, "name-letters", 1));
    let producer = producer(&brokers);
    put_with_a_name_that_is_not_text(&producer, &source);
    producer.send(BaseRecord::<str, str>::to(&source).payload("good")).unwrap();
    producer.flush(LONG).unwrap();
    let source_port = plimsoll_kafka::Source::build(&from(&brokers, &source, "name")).unwrap();
    let sink = |topic: &str| Box::new(plimsoll_kafka::sink::Topic::build(&to(&brokers, topic)).unwrap());
    let dead_letters = Some(sink(&letters) as _);
    let parts = plimsoll_pipeline::Parts { dead_letters, ..parts(Box::new(source_port), sink(&target)) };
    let running = start(parts, settings(Guarantee::AtLeastOnce));
    until_committed(&brokers, &source, "name");
    running.end().unwrap();
    let payloads = |topic: &str| {
        read(&brokers, topic).iter().map(|found| found.payload().unwrap().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!((payloads(&target), payloads(&letters)), (vec![b"good".to_vec()], vec![b"bad".to_vec()]));
}

/// Writes a header name that is not UTF-8, which the library's wrapper does not accept.
fn put_with_a_name_that_is_not_text(producer: &BaseProducer, topic: &str) {
    use rdkafka::bindings::{self as raw, rd_kafka_vtype_t as is};
    let topic = CString::new(topic).unwrap();
    let (name, value) = (b"\xff\xfe", b"bad");
    // SAFETY: the pointers and lengths belong to arrays that outlive the calls; the library copies the value and owns the
    // headers once it took them.
    let refused = unsafe {
        let headers = raw::rd_kafka_headers_new(1);
        raw::rd_kafka_header_add(headers, name.as_ptr().cast(), 2, value.as_ptr().cast(), 3);
        raw::rd_kafka_producev(
            producer.client().native_ptr(),
            is::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            is::RD_KAFKA_VTYPE_MSGFLAGS,
            raw::RD_KAFKA_MSG_F_COPY,
            is::RD_KAFKA_VTYPE_VALUE,
            value.as_ptr(),
            value.len(),
            is::RD_KAFKA_VTYPE_HEADERS,
            headers,
            is::RD_KAFKA_VTYPE_END,
        )
    };
    assert_eq!(refused, rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
}
