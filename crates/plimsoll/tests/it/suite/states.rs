//! Tests the states of collections on a server that ends with the run, so that only the run sees them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{column, suite, write};
use crate::http_matrix::staged;
use crate::program::{inserts, stderr};

fn read(out: &Path, path: &str) -> Value {
    let text = fs::read_to_string(out.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_states_before_and_after_come_from_the_runs_own_server() {
    let dir = tempfile::tempdir().unwrap();
    let paused = inserts("suite_states", 20, "{documents: 20_000}")
        + "    faults:\n      - {at: 50ms, inject: {freeze: {lasts: 100ms}}}\n\
           expect: {'insert.errors{class:connection_lost}': ['count<10']}\n";
    write(dir.path(), "paused.yaml", &paused);
    write(dir.path(), "staged.yaml", &staged("suite_states", ""));
    let table =
        "name,scenario,server\npaused,paused.yaml,embedded:relaxed\nstaged,staged.yaml,embedded:relaxed\n";
    let file = write(dir.path(), "states.csv", table);
    let out = dir.path().join("out");
    let made = suite(&[file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&made);
    assert_eq!(column(&out, "outcome"), ["completed"; 2], "{said}");

    let (before, after) = (read(&out, "001-paused/before.json"), read(&out, "001-paused/after.json"));
    assert_eq!(before["collections"][0]["exists"], false);
    // An insert that the freeze interrupted is not acknowledged, and may be stored or not.
    let total: u64 = column(&out, "total")[0].parse().unwrap();
    let there = after["collections"][0]["documents"].as_u64().unwrap();
    assert!((total..=20_000).contains(&there) && total > 10_000, "{total} {there}");
    assert_eq!(after["collections"][0]["namespace"], "plimsoll_test.suite_states");

    let (before, after) = (read(&out, "002-staged/before.json"), read(&out, "002-staged/after.json"));
    let documents = |state: &Value| -> u64 {
        let all = state["collections"].as_array().unwrap();
        assert!(
            all.iter().all(|it| it["namespace"].as_str().unwrap().starts_with("suite_states.")),
            "{all:?}"
        );
        all.iter().filter_map(|it| it["documents"].as_u64()).sum()
    };
    assert!(documents(&before) > 0 && documents(&after) > documents(&before), "the load adds to the fill");
    assert!(said.contains("the run owns its server") && said.contains("only index"), "{said}");
}
