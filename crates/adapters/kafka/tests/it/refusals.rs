//! Tests refusals: each names the remedy.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_kafka::{Cluster, Error, Source, scenario, sink};
use plimsoll_measure::clock;
use plimsoll_measure::duration::Span;
use plimsoll_pipeline::{Claim, Ended, Partition, Parts, Position, PositionError, PositionStore};

use crate::support::{
    SMALL, broker, committed, copy, fill, from, parts, read, remove_before, settings, start, to, topic,
    until, until_committed,
};
use crate::unwritten_batch::{UnwrittenBatch, unwritten_batch};

fn check_source(typed: &scenario::Source, said: &str) {
    let parts = parts(Box::new(Source::build(typed).unwrap()), Box::new(unwritten_batch(u64::MAX)));
    let running = start(parts, settings(plimsoll_pipeline::guarantee::Guarantee::AtLeastOnce));
    let error = running.pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.contains(said), "{error}");
}

/// A loopback address without a listener.
fn nowhere() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_missing_topic_is_refused_and_not_created() {
    let brokers = broker().bootstrap();
    check_source(&from(&brokers, "misspelt", "g"), "topic \"misspelt\" is missing");
    let error = sink::Topic::build(&to(&brokers, "misspelt")).err().unwrap();
    assert!(matches!(error, Error::NoTopic { .. }), "{error}");
    assert!(matches!(crate::support::admin(&brokers).describe("misspelt"), Err(Error::NoTopic { .. })));
}

#[test]
fn an_unreachable_broker_is_named_with_the_reason() {
    let brokers = nowhere();
    let connect_limit = Span::from_secs(3);
    let source = scenario::Source { connect_limit, ..from(&brokers, "t", "g") };
    check_source(&source, &brokers);
    let error = sink::Topic::build(&scenario::Sink { connect_limit, ..to(&brokers, "t") }).err().unwrap();
    let Error::Unreachable { reason, seconds: 3, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("refused") || reason.contains("failed"), "{error}");
}

#[test]
fn an_aborted_pipeline_stops_retrying_an_unreachable_broker() {
    // Without the abort it would retry for 30 s.
    let source = Source::build(&from(&nowhere(), "t", "g")).unwrap();
    let parts = parts(Box::new(source), Box::new(unwritten_batch(u64::MAX)));
    let running = start(parts, settings(plimsoll_pipeline::guarantee::Guarantee::AtLeastOnce));
    std::thread::sleep(Duration::from_millis(500));
    let began = clock::now();
    running.control.abort();
    assert_eq!(running.pipeline.join().unwrap().unwrap(), Ended::Aborted);
    assert!(clock::now().since(began) < 10 * clock::SECOND_NS, "it continued to retry");
}

#[test]
fn a_group_without_offsets_is_refused_unless_it_may_begin_at_the_beginning() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "new-group", 1);
    fill(&brokers, &source, 1, 10);
    let typed = scenario::Source { start: scenario::Start::Refuse, ..from(&brokers, &source, "nobody") };
    check_source(&typed, "start: earliest");
}

#[test]
fn unread_records_that_retention_removed_are_reported() {
    let brokers = broker().bootstrap();
    let [source, target] = ["kept-short", "kept-short-out"].map(|name| topic(&brokers, name, 1));
    let typed = from(&brokers, &source, "slow");
    fill(&brokers, &source, 1, 10);
    let running = copy(&typed, &to(&brokers, &target));
    until_committed(&brokers, &source, "slow");
    running.end().unwrap();
    fill(&brokers, &source, 1, 10);
    remove_before(&brokers, &source, 0, 10);
    let running = copy(&typed, &to(&brokers, &target));
    until_committed(&brokers, &source, "slow");
    running.end().unwrap();
    assert_eq!(read(&brokers, &target).len(), 20, "records that were read may be removed");
    fill(&brokers, &source, 1, 10);
    remove_before(&brokers, &source, 0, 25);
    check_source(
        &typed,
        "kept-short/0 was read up to offset 20, and it begins at 25: 5 unread offsets are gone",
    );
    assert_eq!(committed(&brokers, &source, "slow"), [(0, 20)].into());
}

#[test]
fn retention_that_overtakes_a_paused_pipeline_is_reported() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "overtaken", 1);
    fill(&brokers, &source, 1, 10_000);
    let down = Arc::new(AtomicBool::new(true));
    let sink = unwritten_batch(u64::MAX).down_while(&down);
    let submitted = sink.submitted();
    let typed = from(&brokers, &source, "overtaken");
    let parts = parts(Box::new(Source::build(&typed).unwrap()), Box::new(sink));
    let running = start(parts, settings(plimsoll_pipeline::guarantee::Guarantee::AtLeastOnce));
    until("the full budget", || submitted.load(Ordering::Relaxed) == SMALL.events_max as u64);
    // After one second without free space, the source pauses the partition.
    std::thread::sleep(Duration::from_secs(5));
    remove_before(&brokers, &source, 0, 9000);
    down.store(false, Ordering::Relaxed);
    until("the refusal", || running.pipeline.is_finished());
    let error = running.pipeline.join().unwrap().unwrap_err().to_string();
    let said = "overtaken/0 was read up to offset 4000, and it begins at 9000: 5000 unread offsets are gone";
    assert!(error.contains(said), "{error}");
}

#[test]
fn a_topic_that_is_deleted_while_read_ends_the_source() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "goes", 1);
    fill(&brokers, &source, 1, 10);
    let sink = unwritten_batch(u64::MAX);
    let written = sink.written();
    let mut typed = from(&brokers, &source, "goes");
    typed
        .properties
        .0
        .insert("topic.metadata.refresh.interval.ms".to_owned(), scenario::Property("500".to_owned()));
    let parts = parts(Box::new(Source::build(&typed).unwrap()), Box::new(sink));
    let running = start(parts, settings(plimsoll_pipeline::guarantee::Guarantee::AtLeastOnce));
    until("the records", || written.load(Ordering::Relaxed) == 10);
    crate::support::admin(&brokers).delete(&source).unwrap();
    let error = running.pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("\"goes\" is gone"), "{error}");
}

/// A store with the position of a partition, as a transactional sink has.
struct Kept(u64);

impl PositionStore for Kept {
    fn claim(&self, _: &Partition) -> Result<Claim, PositionError> {
        Ok(Claim { position: Some(Position::at(self.0)), epoch: 1 })
    }

    fn keep(&self, _: &[(Partition, Position)]) -> Result<(), PositionError> {
        Ok(())
    }
}

/// The broker forgets the group's offsets on a deleted topic; a position store keeps them.
#[test]
fn a_recreated_topic_is_not_continued() {
    let brokers = broker().bootstrap();
    let source = topic(&brokers, "anew", 1);
    fill(&brokers, &source, 1, 10);
    let begin = |next: u64, sink: UnwrittenBatch| {
        let source = Source::build(&from(&brokers, &source, "anew")).unwrap();
        let positions = Some(Arc::new(Kept(next)) as Arc<dyn PositionStore>);
        let parts = Parts { positions, ..parts(Box::new(source), Box::new(sink.in_transactions())) };
        start(parts, settings(plimsoll_pipeline::guarantee::Guarantee::AtLeastOnce))
    };
    let error = begin(100, unwritten_batch(u64::MAX)).pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("anew/0 was read up to offset 100, and it ends at 10"), "{error}");
    assert!(
        error.contains("deleted and recreated") && error.contains("another group, name and destination"),
        "{error}"
    );
    let sink = unwritten_batch(u64::MAX);
    let written = sink.written();
    let running = begin(4, sink);
    until("the rest", || written.load(Ordering::Relaxed) == 6);
    running.end().unwrap();
}

#[test]
fn unknown_keys_and_reserved_properties_are_refused() {
    let typed = r#"{"brokers": "b:1", "topic": "t", "group": "g", "sart": "earliest"}"#;
    assert!(serde_json::from_str::<scenario::Source>(typed).unwrap_err().to_string().contains("sart"));
    let typed = r#"{"brokers": "b:1", "topic": "t", "properties": {"acks": 1, "linger.ms": 5, "socket.nagle.disable": true}}"#;
    let typed: scenario::Sink = serde_json::from_str(typed).unwrap();
    let error = Cluster::build(&typed.brokers, &typed.properties).unwrap_err().to_string();
    assert!(error.contains("\"acks\" cannot be set"), "{error}");
}
