//! Tests pipelines from Kafka to MongoDB under kills: the audit compares the destination with the topic.

mod broker_loss;
mod demo;
mod mismatch;
mod replay;
mod scale_out;
mod waiting;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plimsoll_host::{Cache, Profile};
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::{Broker, Settings};
use plimsoll_kafka::topic::{Admin, Topic};
use plimsoll_measure::clock::{self, SECOND_NS};
use serde_json::Value;

use crate::program::{json, plimsoll, plimsoll_with, server, stderr, uri};

const EVENTS: u64 = 60_000;
/// The time limit of the last run to write the remaining events, in nanoseconds.
const PATIENCE_NS: u64 = 300 * SECOND_NS;

fn broker() -> Broker {
    let settings = Settings { heap_bytes_max: 256 << 20, ..Settings::default() };
    Broker::start(Cache::locate().unwrap().root(), settings).unwrap_or_else(|error| panic!("{error}"))
}

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Fills a topic with this many events of the program's own generator.
fn fill(dir: &Path, brokers: &str, topic: &str, events: u64) {
    Admin::of(&Cluster::at(brokers), Duration::from_secs(60)).unwrap().reset(&Topic::new(topic, 3)).unwrap();
    let text = format!(
        "guarantee: at-most-once\nsource: {{generator: {{partitions: 3, events: {events}, payload: 120B}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: {topic}, placing: same}}}}\n"
    );
    let path = file(dir, "fill.yaml", &text);
    let out = dir.join("fill");
    let filled = plimsoll_with(&[
        "pipeline",
        "run",
        path.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--json",
        "-q",
    ]);
    assert_eq!(filled.status.code(), Some(0), "{}", stderr(&filled));
    assert_eq!(json(&filled)["last"]["counts"]["written_events"], events);
}

fn start(path: &Path, out: &Path) -> Child {
    let args = ["pipeline", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"];
    plimsoll().args(args).stdout(Stdio::null()).spawn().unwrap()
}

/// Drains a pipeline and waits for its end.
fn terminate(mut child: Child) -> ExitStatus {
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap()
}

fn audit(path: &Path) -> (Option<i32>, Value) {
    let output = plimsoll_with(&["pipeline", "audit", path.to_str().unwrap(), "--json"]);
    (
        output.status.code(),
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output))),
    )
}

fn sum(report: &Value, key: &str) -> u64 {
    report["partitions"].as_array().unwrap().iter().map(|one| one[key].as_u64().unwrap()).sum()
}

/// Kills the pipeline several times at random moments, then lets it finish, and audits.
fn killed_and_audited(sink: &str, guarantee: &str, topic: &str) -> Value {
    let (dir, broker, server) = (tempfile::tempdir().unwrap(), broker(), server(Profile::Journaled, &[]));
    let brokers = broker.bootstrap();
    fill(dir.path(), &brokers, topic, EVENTS);
    let sink = sink.replace("URI", &uri(&server));
    let text = format!(
        "guarantee: {guarantee}\nsource: {{kafka: {{brokers: '{brokers}', topic: {topic}, group: g, start: earliest, \
         properties: {{session.timeout.ms: 6000}}}}}}\nsink: {{{sink}}}\nin_flight: {{events: 3000, batch: 200}}\ncommit_every: 100ms\n"
    );
    let path = file(dir.path(), "pipeline.yaml", &text);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = seed | 1;
    for kill in 0..4 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = start(&path, &dir.path().join(format!("run-{kill}")));
        std::thread::sleep(Duration::from_millis(4000 + (random >> 33) % 3000));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = start(&path, &dir.path().join("last"));
    let began = clock::now();
    while sum(&audit(&path).1, "missing") > 0 {
        assert!(
            clock::now().since(began) < PATIENCE_NS,
            "seed {seed}: events are missing: {}",
            audit(&path).1
        );
        assert!(last.try_wait().unwrap().is_none(), "seed {seed}: the pipeline ended");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(terminate(last).code(), Some(0), "seed {seed}");
    let (code, report) = audit(&path);
    assert_eq!(code, Some(if sum(&report, "duplicates") > 0 { 4 } else { 0 }), "seed {seed}: {report}");
    assert_eq!((sum(&report, "expected"), sum(&report, "missing")), (EVENTS, 0), "seed {seed}");
    report
}

#[test]
fn effectively_once_neither_loses_nor_duplicates_under_kills() {
    let report = killed_and_audited(
        "insert: {uri: 'URI', collection: test.once, form: full}",
        "effectively-once",
        "once",
    );
    assert_eq!((sum(&report, "duplicates"), sum(&report, "strangers")), (0, 0), "{report}");
    let altered = |one: &Value| one["checksum"]["expected"] != one["checksum"]["found"];
    assert!(!report["partitions"].as_array().unwrap().iter().any(altered), "{report}");
}

#[test]
fn a_missing_topic_and_a_missing_broker_are_reported() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let run = |brokers: &str, topic: &str| {
        let text = format!(
            "guarantee: at-most-once\nsource: {{kafka: {{brokers: '{brokers}', topic: {topic}, group: g, connect_limit: 3s}}}}\n\
             sink: {{noop: {{}}}}\n"
        );
        let path = file(dir.path(), "pipeline.yaml", &text);
        let output = plimsoll_with(&[
            "pipeline",
            "run",
            path.to_str().unwrap(),
            "--out",
            dir.path().join(topic).to_str().unwrap(),
            "-q",
        ]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(run(&broker.bootstrap(), "nowhere").contains("is missing at"));
    assert!(run("127.0.0.1:1", "away").contains("no broker of 127.0.0.1:1"));
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn at_least_once_loses_nothing_under_kills() {
        killed_and_audited(
            "insert: {uri: 'URI', collection: test.least, identity: object_id, source_field: from, form: full}",
            "at-least-once",
            "least",
        );
    }
}
