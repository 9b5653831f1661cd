//! Tests topics: create, describe, empty, delete; the bare client moves records.

use plimsoll_kafka::bench::{self, Fields};
use plimsoll_kafka::topic::Topic;
use plimsoll_kafka::{Cluster, Error};

use crate::support::{LONG, admin, broker, ends, own_broker};

#[test]
fn a_topic_is_created_described_emptied_and_deleted() {
    let brokers = broker().bootstrap();
    let admin = admin(&brokers);
    let topic = Topic::new("life", 3).with("message.timestamp.type", "LogAppendTime");
    admin.create(&topic).unwrap();
    assert_eq!(admin.create(&topic), Err(Error::TopicExists("life".to_owned())));
    let written = bench::produce(&Cluster::at(&brokers), "life", 1000, &mut |_, payload| {
        payload.extend_from_slice(b"payload")
    })
    .unwrap();
    assert_eq!((written.records, written.bytes), (1000, 7000));
    let all = ends(&brokers, "life");
    assert_eq!(all.len(), 3);
    assert_eq!(all.iter().map(|extent| extent.end).sum::<u64>(), 1000);
    let read = bench::consume(&Cluster::at(&brokers), "life", Fields::All, 1000, LONG).unwrap();
    assert_eq!((read.records, read.bytes), (1000, 7000));
    admin.reset(&topic).unwrap();
    assert!(ends(&brokers, "life").iter().all(|extent| (extent.begin, extent.end) == (0, 0)));
    admin.delete("life").unwrap();
    admin.delete("life").unwrap();
    assert!(matches!(admin.describe("life"), Err(Error::NoTopic { .. })));
}

#[test]
fn the_settings_of_a_topic_recreate_it() {
    let brokers = broker().bootstrap();
    let admin = admin(&brokers);
    let topic = Topic::new("as-made", 3).with("cleanup.policy", "compact").with("retention.ms", "86400000");
    admin.create(&topic).unwrap();
    let mut described = admin.as_made("as-made").unwrap();
    described.properties.sort();
    assert_eq!(described, topic, "inherited properties are not its own");
    admin.reset(&described).unwrap();
    let mut again = admin.as_made("as-made").unwrap();
    again.properties.sort();
    assert_eq!(again, topic);
    assert!(matches!(admin.as_made("as-never-made"), Err(Error::NoTopic { .. })));
}

#[test]
fn a_killed_broker_restarts_with_its_records_and_its_address() {
    let mut broker = own_broker();
    let (brokers, pid) = (broker.bootstrap(), broker.pid());
    admin(&brokers).create(&Topic::new("kept", 1)).unwrap();
    bench::produce(&Cluster::at(&brokers), "kept", 500, &mut |_, payload| payload.push(b'x')).unwrap();
    broker.kill().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    broker.restart().unwrap();
    assert_eq!(broker.bootstrap(), brokers);
    assert_eq!(ends(&brokers, "kept")[0].end, 500);
    assert!(broker.stop(LONG).unwrap(), "it ends gracefully");
    let storage = broker.storage().to_owned();
    drop(broker);
    assert!(!storage.exists(), "temporary storage is removed with the broker");
}
