//! Tests a broker that goes down while a pipeline runs: the pipeline reports it, waits, and loses nothing.

use std::sync::Arc;

use plimsoll_kafka::{Source, sink};
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{Control, Pipeline};

use crate::support::{
    audit, counts, fill, from, own_broker, parts, read, settings, to, topic, until, until_committed,
};

#[test]
fn a_pipeline_reports_a_broker_that_is_down_and_waits() {
    let mut broker = own_broker();
    let brokers = broker.bootstrap();
    let (source, target) = (topic(&brokers, "broker-down-in", 1), topic(&brokers, "broker-down-out", 1));
    fill(&brokers, &source, 1, 100);
    let parts = parts(
        Box::new(Source::build(&from(&brokers, &source, "broker-down")).unwrap()),
        Box::new(sink::Topic::build(&to(&brokers, &target)).unwrap()),
    );
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings(Guarantee::AtLeastOnce), Arc::clone(&control)).unwrap();
    let meter = pipeline.meter();
    let running = std::thread::spawn(move || pipeline.run());
    until_committed(&brokers, &source, "broker-down");
    assert_eq!(meter.trouble(), None);
    broker.kill().unwrap();
    until("a report of the trouble", || meter.trouble().is_some());
    let words = meter.trouble().unwrap_or_default();
    assert!(words.contains("\"broker-down-in\" cannot be read"), "{words}");
    assert!(!running.is_finished(), "it waits for the broker");
    broker.restart().unwrap();
    fill(&brokers, &source, 1, 200);
    until_committed(&brokers, &source, "broker-down");
    until("the end of the trouble", || meter.trouble().is_none());
    control.drain();
    running.join().unwrap().unwrap();
    let counts = counts(&read(&brokers, &target));
    let (missing, _) = audit(&counts, 1, 200);
    assert_eq!(missing, Vec::<String>::new());
}
