//! Tests dead letters: refused records become dead letters, and the others pass.

use plimsoll_kafka::topic::Topic;
use plimsoll_kafka::{Source, sink};
use plimsoll_pipeline::Parts;
use plimsoll_pipeline::guarantee::Guarantee;
use rdkafka::Message;
use rdkafka::message::{Headers, OwnedMessage};
use rdkafka::producer::{BaseRecord, Producer};

use crate::support::{
    LONG, admin, broker, committed, copy_once, from, once, parts, producer, put, read, settings, start, to,
    topic, until_committed,
};

/// Fills a topic with small records and one record that is too large for the target.
fn prepare(brokers: &str, name: &str) -> (String, String, String) {
    let source = topic(brokers, &format!("{name}-in"), 1);
    let small = Topic::new(format!("{name}-small"), 1).with("max.message.bytes", "2000");
    admin(brokers).reset(&small).unwrap();
    let letters = topic(brokers, &format!("{name}-letters"), 1);
    let (producer, large) = (producer(brokers), "x".repeat(5000));
    for number in 0..100 {
        let text = if number == 50 { large.clone() } else { number.to_string() };
        put(&producer, BaseRecord::to(&source).key("k").payload(text.as_str()));
    }
    producer.flush(LONG).unwrap();
    (source, small.name, letters)
}

fn check(brokers: &str, source: &str, target: &str, letters: &str, group: &str) {
    assert_eq!(read(brokers, target).len(), 99);
    let letters = read(brokers, letters);
    let [letter]: [OwnedMessage; 1] = letters.try_into().unwrap();
    assert_eq!(letter.payload().unwrap(), "x".repeat(5000).as_bytes(), "the original bytes");
    let headers = letter.headers().unwrap();
    let header =
        |name| headers.iter().find(|header| header.key == name).and_then(|header| header.value).unwrap();
    assert_eq!(header("plimsoll-cause"), b"refused");
    assert_eq!(header("plimsoll-offset"), b"50");
    assert_eq!(header("plimsoll-topic"), source.as_bytes());
    assert_eq!(header("plimsoll-attempts"), b"1");
    assert_eq!(committed(brokers, source, group)[&0], 100);
}

#[test]
fn a_record_that_is_too_large_is_a_dead_letter_and_the_others_arrive() {
    let brokers = broker().bootstrap();
    let (source, target, letters) = prepare(&brokers, "large");
    let source_port = Source::build(&from(&brokers, &source, "large")).unwrap();
    let sink = sink::Topic::build(&to(&brokers, &target)).unwrap();
    let dead_letters = Some(Box::new(sink::Topic::build(&to(&brokers, &letters)).unwrap()) as _);
    let parts = Parts { dead_letters, ..parts(Box::new(source_port), Box::new(sink)) };
    let running = start(parts, settings(Guarantee::AtLeastOnce));
    until_committed(&brokers, &source, "large");
    running.end().unwrap();
    check(&brokers, &source, &target, &letters, "large");
}

#[test]
fn a_transaction_contains_its_dead_letter() {
    let brokers = broker().bootstrap();
    let (source, target, letters) = prepare(&brokers, "large-once");
    let running = copy_once(
        &from(&brokers, &source, "large-once"),
        &to(&brokers, &target),
        &once("large-once", Some(&letters)),
    );
    until_committed(&brokers, &source, "large-once");
    running.end().unwrap();
    check(&brokers, &source, &target, &letters, "large-once");
}

#[test]
fn without_a_dead_letter_topic_the_pipeline_stops_before_the_refused_record() {
    let brokers = broker().bootstrap();
    let (source, target, _) = prepare(&brokers, "nowhere");
    let running =
        copy_once(&from(&brokers, &source, "nowhere"), &to(&brokers, &target), &once("nowhere", None));
    let error = running.pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("event 50") && error.contains("dead_letters"), "{error}");
    assert!(committed(&brokers, &source, "nowhere").get(&0).is_none_or(|at| *at <= 50));
}
