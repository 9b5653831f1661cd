//! Kills Plimsoll while it changes documents, and audits them later.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};
use serde_json::Value;

use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared};

/// The number of documents before the changes.
const DOCUMENTS: u64 = 20_000;
/// The number of seconds with changes before the kill.
const SECONDS: usize = 3;
/// The time limit for a run to reach the kill, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

/// Starts a run that inserts documents and then changes 300 a second.
fn start(collection: &str, operation: &str, out: &Path) -> Child {
    let mut text = inserts(collection, 100, &format!("{{documents: {DOCUMENTS}}}"));
    text.push_str(&format!(
        "  - load:\n      change: {{operation: {operation}, arrivals: {{constant: {{rate: 300, connections: 4}}}}}}\n    \
         stop: {{duration: 100s}}\n"
    ));
    let file = scenario(out.parent().unwrap(), &text);
    let args =
        ["run", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap(), "--quiet"];
    plimsoll().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The number of recorded seconds in which documents were changed.
fn seconds_of_changes(out: &Path) -> usize {
    let events = std::fs::read_to_string(out.join("events.ndjson")).unwrap_or_default();
    let changed = |line: &str| {
        // The last line may be incomplete.
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["operations"]["change"]["count"].as_u64().unwrap_or(0) > 0
    };
    events.lines().filter(|line| changed(line)).count()
}

/// The audit's findings after the run was killed during its changes.
fn audited_after_a_kill(collection: &str, operation: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut run = start(collection, operation, &out);
    let began = clock::now();
    while seconds_of_changes(&out) < SECONDS && run.try_wait().unwrap().is_none() {
        assert!(clock::now().since(began) < PATIENCE_NS, "no changes");
        std::thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(out.join("ledger/worker-00000.journal").exists(), "the run was killed before its end");
    json(&plimsoll_with(&["audit", out.to_str().unwrap(), "--server", &shared(), "--json"]))
}

fn check(collection: &str, operation: &str, not_audited: std::ops::Range<u64>) {
    let found = audited_after_a_kill(collection, operation);
    for key in ["lost", "phantom", "duplicated", "corrupted"] {
        assert_eq!(found[key], 0, "{key}: {found}");
    }
    for key in ["lost_increments", "extra_increments", "missing_from_index"] {
        assert!(found[key].is_null(), "{key}: {found}");
    }
    let left_out = found["not_audited"].as_u64().unwrap();
    assert!(not_audited.contains(&left_out), "{left_out} not audited: {found}");
    let sum = ["found", "not_audited", "deleted", "unknown_present", "unknown_absent"];
    let sum: u64 = sum.iter().map(|key| found[key].as_u64().unwrap()).sum();
    assert!(sum >= DOCUMENTS, "{found}");
}

#[test]
fn replacements_are_audited_except_the_last_ones() {
    check("crash_replace", "{replace: {}}", 0..2_000);
}

#[test]
fn documents_with_operator_changes_are_found_although_the_last_ones_are_unrecorded() {
    check("crash_update", "{update: {update: {$set: {n: {$number: {}}}}}}", 0..1);
    check(
        "crash_kinds",
        "{update: {update: {one_of: [{$inc: {n: 1}}, {$inc: {n: -3}}, {$push: {l: 1}}]}}}",
        0..1,
    );
}

#[test]
fn increments_are_proven_although_the_last_ones_are_unrecorded() {
    check("crash_increment", "{update: {update: {$inc: {n: 1}}}}", 0..1);
}

#[test]
fn deletions_are_audited_except_the_last_ones() {
    check("crash_delete", "{delete: {}}", 0..2_000);
}
