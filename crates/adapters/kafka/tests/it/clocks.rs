//! Tests that a record's time names its clock: the producer's, or the broker's if the topic is set to it.

use std::sync::Arc;

use plimsoll_kafka::topic::Topic;
use plimsoll_kafka::{Source, sink};
use plimsoll_measure::clock;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::{Control, Pipeline};
use rdkafka::producer::{BaseRecord, Producer};

use crate::support::{LONG, admin, broker, from, parts, producer, put, settings, to, topic, until};

/// Copies ten records with a time half an hour ahead from a topic with this timestamp type. Returns the
/// events by the producer's clock, by the broker's clock, and ahead of this machine's clock.
fn copied(name: &str, timestamp_type: &str) -> [u64; 3] {
    let brokers = broker().bootstrap();
    let source = Topic::new(format!("{name}-in"), 1).with("message.timestamp.type", timestamp_type);
    admin(&brokers).reset(&source).unwrap();
    let (producer, target) = (producer(&brokers), topic(&brokers, &format!("{name}-out"), 1));
    // A broker accepts a time of up to an hour ahead.
    let soon = i64::try_from(clock::wall_ms()).unwrap() + 1_800_000;
    for _ in 0..10 {
        put(&producer, BaseRecord::to(&source.name).key("k").payload("p").timestamp(soon));
    }
    producer.flush(LONG).unwrap();
    let (read, write) = (from(&brokers, &source.name, name), to(&brokers, &target));
    let parts = parts(Box::new(Source::build(&read).unwrap()), Box::new(sink::Topic::build(&write).unwrap()));
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings(Guarantee::AtLeastOnce), Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run());
    until("the events", || meter.counts().get(Count::Written) == 10);
    control.drain();
    running.join().unwrap().unwrap();
    [Count::ProducerClock, Count::SourceClock, Count::ClockAhead].map(|count| meter.counts().get(count))
}

#[test]
fn a_create_time_is_the_producers_clock_and_a_time_ahead_is_counted() {
    assert_eq!(copied("created", "CreateTime"), [10, 0, 10]);
}

#[test]
fn a_log_append_time_is_the_brokers_clock() {
    assert_eq!(copied("appended", "LogAppendTime"), [0, 10, 0]);
}
