//! Reads our runs back from k6's form, and compares the form with k6's own output.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_measure::clock::Instant;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::interval::{Instants, Reply, Tally};
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_measure::run::{Client, Expectation, Operation, Run};
use plimsoll_report::foreign::k6::export::{Shape, export};
use plimsoll_report::foreign::{Foreign, Form, Of, Since, Tool, read};
use serde_json::Value;

/// Operations of 1 to `count` ms from due to done, half of that from sent to done; every tenth fails.
fn tally(count: u64) -> Tally {
    let mut tally = Tally::default();
    for number in 1..=count {
        let ms = number * 1_000_000;
        let due = Instant::from_ns(0);
        let at = Instants { due, awake: due, sent: due + ms / 2, done: due + ms };
        let failed = Reply::failed(Outcome::Rejected(Rejection::Overload), 1);
        tally.record(&at, &if number % 10 == 0 { failed } else { Reply::acknowledged(1) });
    }
    tally.skipped = 3;
    tally
}

fn expectation(metric: &str, expression: &str, value: f64, held: bool) -> Expectation {
    let (metric, expression) = (metric.to_owned(), expression.to_owned());
    Expectation { metric, expression, value: Some(value), held, reason: None, by_default: false }
}

fn run() -> (Run, BTreeMap<String, Tally>) {
    let tallies = BTreeMap::from([("feed read".to_owned(), tally(500)), ("ingest".to_owned(), tally(1000))]);
    let integrity = Integrity { acknowledged: 900, found: 899, lost: 1, ..Integrity::default() };
    let run = Run {
        id: "5a3ed00dc0ffee".into(),
        started: "2026-03-22T16:36:59Z".into(),
        duration_s: 10.0,
        client: Client { connections: 8, ..Client::default() },
        integrity: Some(integrity),
        operations: BTreeMap::from([(
            "ingest".to_owned(),
            Operation { achieved: Some(0.995), ..Operation::default() },
        )]),
        expectations: vec![
            expectation("ingest.response", "p(99)<50ms", 990e6, false),
            expectation("ingest.achieved", "value>0.99", 0.995, true),
            expectation("http_req_duration{scenario:feed}", "p(95)<500", 450e6, true),
            expectation("http_req_failed", "rate<0.2", 0.1, true),
            expectation("integrity.lost", "count==0", 1.0, false),
        ],
        ..Run::default()
    };
    (run, tallies)
}

fn exported(shape: Shape) -> String {
    let (run, tallies) = run();
    export(&run, &tallies, shape)
}

fn read_back(shape: Shape) -> Foreign {
    read(exported(shape).as_bytes()).unwrap()
}

#[test]
fn an_exported_run_reads_back_with_its_start_of_counting() {
    for (shape, form) in [(Shape::Summary, Form::K6Summary), (Shape::Legacy, Form::K6SummaryExport)] {
        let found = read_back(shape);
        assert_eq!((found.tool, found.form), (Tool::Plimsoll, form));
        assert_eq!(found.started.as_deref(), Some("2026-03-22T16:36:59Z"));
        assert!(found.duration_s.is_some_and(|seconds| (seconds - 10.0).abs() < 1e-9));
        let ingest = super::operation(&found, "ingest");
        assert_eq!((ingest.count, ingest.failed), (Some(1000), Some(100)));
        let times: Vec<_> = ingest.times.iter().map(|it| (it.since, it.of, it.ns.count)).collect();
        let mut expected = [
            (Since::Due, Of::Failures, Some(100)),
            (Since::Due, Of::Successes, Some(900)),
            (Since::Sent, Of::Successes, Some(900)),
        ];
        let mut times_sorted = times.clone();
        let key = |it: &(Since, Of, Option<u64>)| (it.0, it.2);
        times_sorted.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(times_sorted, expected);
        let all = super::operation(&found, "http requests");
        assert_eq!((all.count, all.rate_per_s, all.failed), (Some(1500), Some(150.0), Some(150)));
        assert_eq!(super::operation(&found, "http requests {name:feed read}").count, Some(500));
    }
}

#[test]
fn percentiles_read_back_are_those_of_the_run() {
    let (_, tallies) = run();
    let found = read_back(Shape::Summary);
    let ingest = super::operation(&found, "ingest");
    for (since, histogram) in
        [(Since::Due, &tallies["ingest"].response), (Since::Sent, &tallies["ingest"].service)]
    {
        let wanted = |it: &&plimsoll_report::foreign::Times| it.since == since && it.of == Of::Successes;
        let ns = &ingest.times.iter().find(wanted).unwrap().ns;
        for percentile in [50.0, 90.0, 95.0, 99.0, 99.9] {
            let value = ns.at(percentile).unwrap();
            assert!((value - histogram.at(percentile) as f64).abs() < 1.0, "p{percentile}: {value}");
        }
        assert!((ns.max.unwrap() - histogram.max() as f64).abs() < 1.0);
    }
}

#[test]
fn thresholds_read_back_as_they_were_judged_in_both_forms() {
    for shape in [Shape::Summary, Shape::Legacy] {
        let found: Vec<_> = read_back(shape).thresholds;
        let found: Vec<_> =
            found.iter().map(|it| (it.metric.as_str(), it.expression.as_str(), it.held.unwrap())).collect();
        let expected = [
            ("http_req_duration{scenario:feed}", "p(95)<500", true),
            ("http_req_failed", "rate<0.2", true),
            ("ingest_achieved", "value>0.99", true),
            ("ingest_response", "p(99)<50", false),
            ("integrity_lost", "count==0", false),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn an_unknown_threshold_has_the_reason_for_not_holding() {
    let (mut run, tallies) = run();
    let reason = Some("n = 600 is too small".to_owned());
    run.expectations =
        vec![Expectation { reason, value: None, ..expectation("x.response", "p(99)<1", 0.0, false) }];
    for shape in [Shape::Summary, Shape::Legacy] {
        let found = read(export(&run, &tallies, shape).as_bytes()).unwrap();
        let note = "x.response p(99)<1: n = 600 is too small; an unknown value does not hold";
        assert!(found.notes.iter().any(|it| it == note), "{:?}", found.notes);
    }
}

#[test]
fn operations_whose_names_look_alike_to_k6_stay_apart() {
    let tallies = BTreeMap::from([("a-b".to_owned(), tally(10)), ("a_b".to_owned(), tally(20))]);
    let text = export(&Run { duration_s: 1.0, ..Run::default() }, &tallies, Shape::Summary);
    let value: Value = serde_json::from_str(&text).unwrap();
    let count = |name: &str| value["metrics"][name]["values"]["count"].as_u64();
    assert_eq!((count("a_b_completed"), count("a_b_2_completed")), (Some(10), Some(20)));
}

#[test]
fn a_run_of_nothing_is_written_and_read() {
    for shape in [Shape::Summary, Shape::Legacy] {
        let text = export(&Run::default(), &BTreeMap::new(), shape);
        assert!(read(text.as_bytes()).is_ok(), "{text}");
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap_or_else(|| panic!("{value} is not an object")).keys().cloned().collect()
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

/// The keys that a kind of metric has in a summary of k6's own.
fn keys_by_kind(summary: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let metrics = summary["metrics"].as_object().unwrap().values();
    metrics.map(|it| (it["type"].as_str().unwrap().to_owned(), keys(&it["values"]))).collect()
}

#[test]
fn the_form_is_that_of_k6s_own_summary() {
    let (theirs, ours) = (json(&super::bytes("k6-summary.json")), json(exported(Shape::Summary).as_bytes()));
    let extra: Vec<_> = keys(&ours).difference(&keys(&theirs)).cloned().collect();
    assert_eq!(extra, ["plimsoll"], "only the mark extends k6's form");
    assert!(keys(&theirs).is_subset(&keys(&ours)), "{:?}", keys(&theirs));
    for part in ["root_group", "options", "state"] {
        assert_eq!(keys(&ours[part]), keys(&theirs[part]), "{part}");
    }
    let check = |value: &Value| keys(value.pointer("/root_group/groups/0/checks/0").unwrap_or(&Value::Null));
    assert_eq!(keys(&ours["root_group"]["checks"][0]), check(&theirs));
    let kinds = keys_by_kind(&theirs);
    for (name, metric) in ours["metrics"].as_object().unwrap() {
        let kind = metric["type"].as_str().unwrap();
        let only_judged = name.contains("{scenario:");
        assert!(only_judged || keys(&metric["values"]) == kinds[kind], "{name}: {metric}");
        assert!(["time", "data", "default"].contains(&metric["contains"].as_str().unwrap()), "{name}");
        assert!(metric["values"].as_object().unwrap().values().all(Value::is_number), "{name}");
        for held in metric["thresholds"].as_object().into_iter().flat_map(|it| it.values()) {
            assert!(held["ok"].is_boolean(), "{name}: {held}");
        }
    }
    let their_names: BTreeSet<_> = keys(&theirs["metrics"]);
    for name in
        ["http_reqs", "http_req_duration", "http_req_failed", "http_req_blocked", "iterations", "checks"]
    {
        assert!(
            their_names.contains(name) && ours["metrics"][name]["type"] == theirs["metrics"][name]["type"]
        );
        assert_eq!(ours["metrics"][name]["contains"], theirs["metrics"][name]["contains"], "{name}");
    }
}

#[test]
fn the_older_form_is_that_of_k6s_own_export() {
    let theirs = json(&super::bytes("k6-summary-export.json"));
    let ours = json(exported(Shape::Legacy).as_bytes());
    assert_eq!(keys(&ours["root_group"]), keys(&theirs["root_group"]));
    assert!(ours["root_group"]["checks"].is_object() && theirs["root_group"]["checks"].is_object());
    for name in
        ["http_reqs", "http_req_failed", "http_req_blocked", "iterations", "vus", "data_sent", "checks"]
    {
        let bare = |value: &Value| {
            let mut keys = keys(&value["metrics"][name]);
            keys.remove("thresholds");
            keys
        };
        assert_eq!(bare(&ours), bare(&theirs), "{name}");
    }
    let failed = &ours["metrics"]["ingest_response"]["thresholds"]["p(99)<50"];
    assert_eq!(failed, &Value::Bool(true), "`true` means failed in this form");
}

#[test]
fn identities_are_those_of_k6() {
    let ours = json(exported(Shape::Summary).as_bytes());
    assert_eq!(ours["root_group"]["id"], "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!(ours["root_group"]["id"], json(&super::bytes("k6-summary.json"))["root_group"]["id"]);
}
