//! Tests that an audit with the ledger of the producer names records that the broker lost.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_host::{Cache, Profile};
use plimsoll_kafka::Cluster;
use plimsoll_kafka::broker::VERSION;
use plimsoll_kafka::topic::{Admin, Topic};
use serde_json::{Value, json};

use super::{broker, file, fill, sum};
use crate::program::{plimsoll_with, server, stderr, stdout, uri};

const EVENTS: u64 = 600;

/// Deletes the records of partition 0 before an offset, with Kafka's own tool.
fn delete_before(dir: &Path, brokers: &str, topic: &str, offset: u64) {
    let place = json!({"topic": topic, "partition": 0, "offset": offset});
    let places = file(dir, "places.json", &json!({"partitions": [place], "version": 1}).to_string());
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    java.arg(Cache::locate().unwrap().root().join(format!("kafka-{VERSION}/*")));
    java.arg("org.apache.kafka.tools.DeleteRecordsCommand").args(["--bootstrap-server", brokers]);
    let output = java.arg("--offset-json-file").arg(places).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The exit code of an audit, and its report; with the ledger of the fill if `produced` names it.
fn audited(path: &Path, produced: Option<&Path>) -> (Option<i32>, Value) {
    let mut words = vec!["pipeline", "audit", path.to_str().unwrap(), "--json"];
    words.extend(produced.iter().flat_map(|dir| ["--produced", dir.to_str().unwrap()]));
    let output = plimsoll_with(&words);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| panic!("{}", stderr(&output))))
}

/// The sums of acknowledged and of lost records, and the number of ranges with other records.
fn broker_sums(report: &Value) -> [u64; 3] {
    let partitions = report["broker"].as_array().unwrap();
    let sum = |of: &dyn Fn(&Value) -> u64| partitions.iter().map(of).sum();
    [
        sum(&|one| one["acknowledged"].as_u64().unwrap()),
        sum(&|one| one["lost"].as_u64().unwrap()),
        sum(&|one| one["replaced"].as_array().unwrap().len() as u64),
    ]
}

#[test]
fn records_that_the_broker_lost_are_noticed_by_the_ledger_of_their_producer() {
    let (dir, broker, server) = (tempfile::tempdir().unwrap(), broker(), server(Profile::Journaled, &[]));
    let brokers = broker.bootstrap();
    fill(dir.path(), &brokers, "kept", EVENTS);
    let produced = dir.path().join("fill");
    let text = format!(
        "guarantee: effectively-once\nsource: {{kafka: {{brokers: '{brokers}', topic: kept, group: g, start: earliest}}}}\n\
         sink: {{insert: {{uri: '{}', collection: test.kept, form: full}}}}\n",
        uri(&server)
    );
    let path = file(dir.path(), "pipeline.yaml", &text);
    delete_before(dir.path(), &brokers, "kept", 20);
    let rest = (EVENTS - 20).to_string();
    let out = dir.path().join("run");
    let words = ["pipeline", "run", path.to_str().unwrap(), "--events", &rest, "-q", "--out"];
    let ran = plimsoll_with(&[&words[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));

    let (code, report) = audited(&path, None);
    assert_eq!((code, sum(&report, "missing")), (Some(0), 0), "the topic alone shows nothing: {report}");
    let (code, report) = audited(&path, Some(&produced));
    assert_eq!((code, sum(&report, "missing")), (Some(4), 0), "{report}");
    assert_eq!(broker_sums(&report), [EVENTS, 20, 0], "{report}");
    let words = ["pipeline", "audit", path.to_str().unwrap(), "--produced", produced.to_str().unwrap()];
    let said = stdout(&plimsoll_with(&words));
    for part in ["kept/0: the broker has 180 of 200", "lost by the broker 0 to 19", "a loss of the broker"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_topic_that_was_made_anew_does_not_hold_the_acknowledged_records() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let brokers = broker.bootstrap();
    fill(dir.path(), &brokers, "anew", EVENTS);
    let text = format!(
        "source: {{kafka: {{brokers: '{brokers}', topic: anew, group: g, start: earliest}}}}\n\
         sink: {{kafka: {{brokers: '{brokers}', topic: anew, placing: same}}}}\n"
    );
    let path = file(dir.path(), "pipeline.yaml", &text);
    let produced = dir.path().join("fill");
    let (code, report) = audited(&path, Some(&produced));
    assert_eq!((code, broker_sums(&report)), (Some(0), [EVENTS, 0, 0]), "{report}");

    let again = tempfile::tempdir().unwrap();
    fill(again.path(), &brokers, "anew", EVENTS);
    let (code, report) = audited(&path, Some(&produced));
    assert_eq!(
        (code, broker_sums(&report)),
        (Some(0), [EVENTS, 0, 0]),
        "equal records at equal offsets: {report}"
    );

    let admin = Admin::of(&Cluster::at(&brokers), Duration::from_secs(60)).unwrap();
    admin.reset(&Topic::new("anew", 3)).unwrap();
    let (code, report) = audited(&path, Some(&produced));
    assert_eq!((code, broker_sums(&report)), (Some(4), [EVENTS, EVENTS, 0]), "{report}");

    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let refused =
        plimsoll_with(&["pipeline", "audit", path.to_str().unwrap(), "--produced", other.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("name the directory of a pipeline's run"), "{}", stderr(&refused));
}
