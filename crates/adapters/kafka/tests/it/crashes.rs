//! Kills the broker while records are in flight: no record is lost, and transactions duplicate none.

use plimsoll_kafka::broker::Broker;

use crate::support::{
    Running, audit, copy, copy_once, ends, fill, from, is_committed, once, own_broker, read_with_kafkas_own,
    to, topic, until,
};

const PARTITIONS: u16 = 3;
const EACH: u64 = 20_000;

/// Kills the broker twice at some point of a copy, which continues.
fn kill_and_restart(broker: &mut Broker, target: &str, running: Running) -> Running {
    let brokers = broker.bootstrap();
    for part in 1..=2_u64 {
        let some = PARTITIONS as u64 * EACH * part / 4;
        until("some records", || {
            running.pipeline.is_finished()
                || ends(&brokers, target).iter().map(|extent| extent.end).sum::<u64>() >= some
        });
        if running.pipeline.is_finished() {
            panic!("it ended before kill {part}: {:?}", running.end());
        }
        broker.kill().unwrap();
        broker.restart().unwrap();
    }
    running
}

/// Ends a pipeline after it has committed everything in a topic. A pipeline that ended before says why.
fn drain(running: Running, brokers: &str, source: &str) {
    until("the commit", || running.pipeline.is_finished() || is_committed(brokers, source, "g"));
    running.end().unwrap();
}

#[test]
fn killing_the_broker_twice_loses_no_record() {
    let mut broker = own_broker();
    let brokers = broker.bootstrap();
    let (source, target) = (topic(&brokers, "in", PARTITIONS), topic(&brokers, "out", PARTITIONS));
    fill(&brokers, &source, PARTITIONS, EACH);
    let running = copy(&from(&brokers, &source, "g"), &to(&brokers, &target));
    let running = kill_and_restart(&mut broker, &target, running);
    drain(running, &brokers, &source);
    let (missing, _) = audit(&read_with_kafkas_own(&brokers, &target), PARTITIONS, EACH);
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn killing_the_broker_twice_neither_loses_nor_duplicates_with_transactions() {
    let mut broker = own_broker();
    let brokers = broker.bootstrap();
    let (source, target) = (topic(&brokers, "in", PARTITIONS), topic(&brokers, "out", PARTITIONS));
    fill(&brokers, &source, PARTITIONS, EACH);
    let running = copy_once(&from(&brokers, &source, "g"), &to(&brokers, &target), &once("crash", None));
    let running = kill_and_restart(&mut broker, &target, running);
    drain(running, &brokers, &source);
    let (missing, doubled) = audit(&read_with_kafkas_own(&brokers, &target), PARTITIONS, EACH);
    assert_eq!((missing, doubled), (vec![], vec![]));
}
