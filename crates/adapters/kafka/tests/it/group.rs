//! Tests members that join and leave under load: no record is lost, and transactions duplicate none.

use std::thread;
use std::time::Duration;

use plimsoll_kafka::{Cluster, group, scenario};
use plimsoll_measure::duration::Span;

use crate::support::{
    LONG, Running, audit, broker, committed, copy, copy_once, counts, ends, fill, from, once, read, to,
    topic, until_committed,
};

const PARTITIONS: u16 = 6;
const EACH: u64 = 3000;
/// The time between two changes of members.
const STAY: Duration = Duration::from_secs(4);

/// Starts a member, then a second member, then stops the first, while records arrive.
fn change_members(
    brokers: &str,
    name: &str,
    mut member: impl FnMut(&str, &str, u32) -> Running,
) -> (Vec<String>, Vec<String>) {
    let source = topic(brokers, &format!("{name}-in"), PARTITIONS);
    let target = topic(brokers, &format!("{name}-out"), PARTITIONS);
    let filler = {
        let (brokers, source) = (brokers.to_owned(), source.clone());
        thread::spawn(move || fill_slowly(&brokers, &source))
    };
    let first = member(&source, &target, 1);
    thread::sleep(STAY);
    let second = member(&source, &target, 2);
    thread::sleep(STAY);
    first.end().unwrap();
    filler.join().unwrap();
    until_committed(brokers, &source, name);
    second.end().unwrap();
    audit(&counts(&read(brokers, &target)), PARTITIONS, EACH)
}

fn fill_slowly(brokers: &str, topic: &str) {
    let producer = crate::support::producer(brokers);
    for number in 0..EACH {
        for partition in 0..PARTITIONS {
            let text = format!("{partition}-{number}");
            let record = rdkafka::producer::BaseRecord::to(topic)
                .partition(partition.into())
                .key(text.as_str())
                .payload(text.as_str());
            crate::support::put(&producer, record);
        }
        if number % 10 == 0 {
            thread::sleep(Duration::from_millis(30));
            producer.poll(Duration::ZERO);
        }
    }
    rdkafka::producer::Producer::flush(&producer, LONG).unwrap();
}

#[test]
fn at_least_once_loses_nothing_when_members_change() {
    let brokers = broker().bootstrap();
    let (missing, doubled) = change_members(&brokers, "alo", |source, target, _| {
        copy(&from(&brokers, source, "alo"), &to(&brokers, target))
    });
    assert_eq!(missing, Vec::<String>::new());
    // Revoked partitions are fully settled, so no record needs to be read twice.
    assert_eq!(doubled, Vec::<String>::new());
}

#[test]
fn exactly_once_neither_loses_nor_duplicates_when_members_change() {
    let brokers = broker().bootstrap();
    let (missing, doubled) = change_members(&brokers, "eos", |source, target, number| {
        copy_once(
            &from(&brokers, source, "eos"),
            &to(&brokers, target),
            &once(&format!("eos-{number}"), None),
        )
    });
    assert_eq!((missing, doubled), (vec![], vec![]));
}

#[test]
fn only_the_next_member_writes_the_records_in_flight_of_a_lost_partition() {
    let brokers = broker().bootstrap();
    let (missing, doubled) = change_members(&brokers, "hasty", |source, target, number| {
        let settle_limit = Span::default();
        let source = scenario::Source { settle_limit, ..from(&brokers, source, "hasty") };
        // Transactions stay open for long, so some are open when the partition moves.
        let age_max = Span::from_secs(1);
        let once = scenario::ExactlyOnce { age_max, ..once(&format!("hasty-{number}"), None) };
        copy_once(&source, &to(&brokers, target), &once)
    });
    assert_eq!((missing, doubled), (vec![], vec![]));
}

#[test]
fn a_rewound_group_reads_one_topic_again_and_keeps_its_other_offsets() {
    let brokers = broker().bootstrap();
    let targets = ["back-out", "kept-out"].map(|name| topic(&brokers, name, 2));
    for (name, target) in ["back-in", "kept-in"].into_iter().zip(&targets) {
        fill(&brokers, &topic(&brokers, name, 2), 2, 50);
        let running = copy(&from(&brokers, name, "back"), &to(&brokers, target));
        until_committed(&brokers, name, "back");
        running.end().unwrap();
    }
    let extents = ends(&brokers, "back-in");
    group::rewind(&Cluster::at(&brokers), "back", "back-in", &extents, LONG).unwrap();
    assert_eq!(committed(&brokers, "back-in", "back"), [(0, 0), (1, 0)].into());
    assert_eq!(committed(&brokers, "kept-in", "back"), [(0, 50), (1, 50)].into());

    let running = copy(&from(&brokers, "back-in", "back"), &to(&brokers, &targets[0]));
    until_committed(&brokers, "back-in", "back");
    let living = group::rewind(&Cluster::at(&brokers), "back", "back-in", &extents, Duration::ZERO);
    let message = living.unwrap_err().to_string();
    assert!(message.contains("has every process of the group ended?"), "{message}");
    running.end().unwrap();
    assert!(counts(&read(&brokers, &targets[0])).values().all(|&times| times == 2), "each was read twice");
}
