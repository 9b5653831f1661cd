//! Tests transactions: records and offsets become visible together, and a replaced writer stops writing.

use std::collections::BTreeMap;

use rdkafka::Message;
use rdkafka::consumer::Consumer;

use crate::support::{
    audit, broker, committed, copy_once, counts, ends, fill, from, once, read, to, topic, until,
    until_committed,
};

#[test]
fn offsets_are_part_of_the_transaction_and_exact() {
    let brokers = broker().bootstrap();
    let (source, target) = (topic(&brokers, "once-in", 4), topic(&brokers, "once-out", 4));
    fill(&brokers, &source, 4, 2500);
    let running = copy_once(&from(&brokers, &source, "once"), &to(&brokers, &target), &once("once", None));
    until_committed(&brokers, &source, "once");
    running.end().unwrap();
    assert_eq!(committed(&brokers, &source, "once"), (0..4).map(|partition| (partition, 2500)).collect());
    let (missing, doubled) = audit(&counts(&read(&brokers, &target)), 4, 2500);
    assert_eq!((missing, doubled), (vec![], vec![]));
    let markers = ends(&brokers, &target).iter().map(|extent| extent.end).sum::<u64>() - 10_000;
    assert!(markers > 0, "without transaction markers the test proves nothing");
}

#[test]
fn overlapping_transactions_keep_the_order_of_records() {
    const EACH: u64 = 20_000;
    let brokers = broker().bootstrap();
    let (source, target) = (topic(&brokers, "turns-in", 4), topic(&brokers, "turns-out", 4));
    fill(&brokers, &source, 4, EACH);
    let running = copy_once(&from(&brokers, &source, "turns"), &to(&brokers, &target), &once("turns", None));
    until_committed(&brokers, &source, "turns");
    running.end().unwrap();
    let mut next = BTreeMap::from([(0, 0), (1, 0), (2, 0), (3, 0)]);
    for message in read(&brokers, &target) {
        let text = String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
        let at = next.get_mut(&message.partition()).unwrap();
        assert_eq!(text, format!("{}-{at}", message.partition()));
        *at += 1;
    }
    assert!(next.values().all(|count| *count == EACH), "{next:?}");
}

#[test]
fn a_replaced_writer_is_fenced_and_duplicates_nothing() {
    let brokers = broker().bootstrap();
    let (source, target) = (topic(&brokers, "fence-in", 2), topic(&brokers, "fence-out", 2));
    fill(&brokers, &source, 2, 1000);
    let first = copy_once(&from(&brokers, &source, "fence"), &to(&brokers, &target), &once("fence", None));
    until_committed(&brokers, &source, "fence");
    // Starts another writer with the same name: the next transaction of the first must fail.
    let second = copy_once(&from(&brokers, &source, "fence"), &to(&brokers, &target), &once("fence", None));
    until("a second member", || members(&brokers, "fence") >= 1);
    std::thread::sleep(std::time::Duration::from_secs(2));
    fill(&brokers, &source, 2, 2000);
    let error = first.pipeline.join().unwrap().unwrap_err().to_string();
    assert!(error.to_lowercase().contains("fenced"), "{error}");
    until_committed(&brokers, &source, "fence");
    second.end().unwrap();
    let counts = counts(&read(&brokers, &target));
    let (missing, doubled) = audit(&counts, 2, 2000);
    // The first thousand records were written twice to the source.
    assert_eq!((missing.len(), doubled.len()), (0, 2000));
    assert_eq!(counts.values().sum::<u32>(), 6000);
}

fn members(brokers: &str, group: &str) -> usize {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    let consumer: rdkafka::consumer::BaseConsumer = config.create().unwrap();
    let groups = consumer.fetch_group_list(Some(group), crate::support::LONG).unwrap();
    groups.groups().iter().map(|group| group.members().len()).sum()
}
