//! Measures the CPU of a writer while it waits for its broker.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::Broker;
use plimsoll_kafka::topic::{Admin, Topic};
use plimsoll_process::procfs::stat_field;

use super::{broker, file, start, terminate};

/// The time in which the broker is paused.
const STOPPED: Duration = Duration::from_secs(1);

/// The CPU that a process has used, in ticks of 10 ms.
fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat_field(&stat, 14).unwrap() + stat_field(&stat, 15).unwrap()
}

/// While one request of a partition is in flight and more records of that partition are overdue, the client
/// library polls its sockets without a pause. That would take a core for each worker.
#[test]
fn a_writer_that_waits_for_its_broker_uses_little_cpu() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let brokers = broker.bootstrap();
    Admin::of(&Cluster::at(&brokers), Duration::from_secs(60))
        .unwrap()
        .reset(&Topic::new("slow", 3))
        .unwrap();
    let text = format!(
        "guarantee: at-most-once\nsource: {{generator: {{partitions: 3, payload: 120B}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: slow, placing: same}}}}\n"
    );
    let writer = start(&file(dir.path(), "slow.yaml", &text), &dir.path().join("run"));
    sleep(Duration::from_secs(3));
    let before = ticks(&writer);
    // If the writer's thread is delayed within a request, the library polls. So the smallest of several
    // values counts.
    let used = (0..4).map(|_| while_stopped(&broker, &writer)).min().unwrap();
    assert_eq!(terminate(writer).code(), Some(0));
    assert!(before > 10, "the writer worked before the pause: {before} ticks");
    assert!(used < 50, "{used} ticks of 10 ms in {STOPPED:?} of waiting");
}

/// The CPU that the writer uses while its broker is paused.
fn while_stopped(broker: &Broker, writer: &Child) -> u64 {
    broker.pause().unwrap();
    // Lets the events on their way to the worker's queues settle.
    sleep(Duration::from_millis(300));
    let before = ticks(writer);
    sleep(STOPPED);
    let used = ticks(writer) - before;
    broker.resume().unwrap();
    sleep(Duration::from_millis(500));
    used
}
