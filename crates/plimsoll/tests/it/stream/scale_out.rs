//! Tests processes of one group that join, leave and are killed under load: the audit compares the
//! destination with the topic.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use plimsoll_host::Profile;
use plimsoll_kafka::Cluster;
use plimsoll_kafka::topic::{Admin, Topic};
use plimsoll_measure::clock;
use serde_json::Value;

use super::{PATIENCE_NS, audit, broker, file, start, sum, terminate};
use crate::program::{server, uri};

/// The time between two changes of the group.
const STAY: Duration = Duration::from_secs(4);

/// The last count that a process reported.
pub fn count(out: &Path, word: &str) -> u64 {
    let text = std::fs::read_to_string(out.join("seconds.ndjson")).unwrap_or_default();
    let last = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    last.map_or(0, |second| second["counts"][word].as_u64().unwrap())
}

/// Waits until a condition holds, while every process runs.
pub fn until(what: &str, children: &mut [&mut Child], mut holds: impl FnMut() -> bool) {
    let began = clock::now();
    while !holds() {
        for child in children.iter_mut() {
            assert!(child.try_wait().unwrap().is_none(), "a pipeline ended before {what}");
        }
        assert!(clock::now().since(began) < PATIENCE_NS, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn joining_leaving_and_killed_processes_neither_lose_nor_duplicate() {
        let (dir, broker, server) = (tempfile::tempdir().unwrap(), broker(), server(Profile::Journaled, &[]));
        let (dir, brokers) = (dir.path(), broker.bootstrap());
        Admin::of(&Cluster::at(&brokers), Duration::from_secs(60))
            .unwrap()
            .reset(&Topic::new("shared", 6))
            .unwrap();
        let load = format!(
            "guarantee: at-most-once\nsource: {{generator: {{partitions: 6, rate: 2000, payload: 120B}}}}\n\
             sink: {{kafka: {{brokers: '{brokers}', topic: shared, placing: same}}}}\n"
        );
        let text = format!(
            "name: shared\nguarantee: effectively-once\nsource: {{kafka: {{brokers: '{brokers}', topic: shared, group: g, \
             start: earliest, properties: {{session.timeout.ms: 6000}}}}}}\nsink: {{insert: {{uri: '{}', collection: test.shared}}}}\n\
             in_flight: {{events: 2000, batch: 200}}\n",
            uri(&server)
        );
        let (load, path) = (file(dir, "load.yaml", &load), file(dir, "pipeline.yaml", &text));
        let out = ["load", "first", "second", "third"].map(|name| dir.join(name));
        let written = |at: usize| count(&out[at], "written_events");
        let mut loading = start(&load, &out[0]);
        let mut first = start(&path, &out[1]);
        let mut second = start(&path, &out[2]);
        until("the first two work", &mut [&mut loading, &mut first, &mut second], || {
            written(1) > 0 && written(2) > 0
        });
        let mut third = start(&path, &out[3]);
        until("the third works", &mut [&mut loading, &mut first, &mut second, &mut third], || written(3) > 0);
        std::thread::sleep(STAY);
        assert_eq!(terminate(first).code(), Some(0), "a stopped process ends gracefully");
        std::thread::sleep(STAY);
        second.kill().unwrap();
        second.wait().unwrap();
        std::thread::sleep(STAY);
        assert!(loading.try_wait().unwrap().is_none(), "events arrived all the time");
        assert_eq!(terminate(loading).code(), Some(0));
        until("the rest", &mut [&mut third], || sum(&audit(&path).1, "missing") == 0);
        assert_eq!(terminate(third).code(), Some(0));
        let (code, report) = audit(&path);
        assert_eq!(code, Some(0), "{report}");
        assert_eq!(sum(&report, "expected"), written(0), "{report}");
        assert_eq!((sum(&report, "duplicates"), sum(&report, "strangers")), (0, 0), "{report}");
    }
}
