//! Tests `plimsoll bench`: its options make the same run as the equivalent scenario.

use std::process::Output;

use serde_json::json;

use crate::program::{json, plimsoll_with, scenario, shared, stderr, stdout};

const INSERT: [&str; 6] = ["--insert", "{name: {$text: {bytes: 20}}}", "--batch", "100", "--rate", "500"];

/// Runs `bench` with a run directory, against the shared server.
fn bench(collection: &str, args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let collection = format!("plimsoll_test.{collection}");
    let base = ["bench", "--server", &shared(), "--collection", &collection, "--json"];
    let timeouts = ["--set", "timeout=60s", "--set", "unreachable_for=60s", "--out", out.to_str().unwrap()];
    plimsoll_with(&[&base[..], &timeouts, args].concat())
}

#[test]
fn the_printed_scenario_is_the_same_run() {
    for args in [
        &INSERT[..],
        &["--insert", "{a: 1, '#': 'no'}", "--for", "1m30s", "--connections", "3", "--seed", "7"],
        &["--find", "--documents", "50", "--document", "{n: {$number: {}}, odd: 'a: b'}"],
        &["--find", "{n: {$gt: {$int: {max: 9}}}}", "--rate", "0.5"],
        &["--update", "{$set: {seen: {$number: {}}}}", "--set", "write_concern={w: 1}"],
        &["--update", "{one_of: [{$inc: {a: 1}}, {$unset: {a: ''}}]}", "--filter", "{n: 5}"],
    ] {
        let printed = plimsoll_with(&[&["bench"][..], args, &["--print-scenario"]].concat());
        assert_eq!(printed.status.code(), Some(0), "{}", stderr(&printed));
        let dir = tempfile::tempdir().unwrap();
        let file = scenario(dir.path(), &stdout(&printed));
        let resolved = |args: &[&str]| {
            let output = plimsoll_with(&[args, &["--dry-run"]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stdout(&output)
        };
        let of_file = resolved(&["run", file.to_str().unwrap()]);
        assert_eq!(resolved(&[&["bench"][..], args].concat()), of_file, "{}", stdout(&printed));
        assert!(of_file.contains("phases:"), "{of_file}");
    }
}

#[test]
fn inserts_run_at_their_rate_and_a_second_run_is_refused() {
    let args = [&INSERT[..4], &["--rate", "20", "--for", "2s"]].concat();
    let output = bench("bench_insert", &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = json(&output);
    assert_eq!(run["operations"]["insert"]["count"], 40, "{}", run["operations"]);
    assert_eq!((&run["integrity"]["found"], &run["integrity"]["lost"]), (&json!(4_000), &json!(0)));
    assert_eq!(run["scenario"]["title"], "bench: insert");
    let again = bench("bench_insert", &args);
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains("is not empty (4000 documents)"), "{}", stderr(&again));
}

#[test]
fn finds_and_updates_fill_the_collection_first() {
    for (name, args) in [
        ("find", &["--find"][..]),
        ("find", &["--find", "{n: {$long: {max: 499}}}"]),
        ("update", &["--update", "{$set: {seen: {$number: {}}}}"]),
        ("update", &["--update", "{$inc: {seen: 1}}", "--filter", "{n: {$long: {max: 499}}}"]),
    ] {
        let collection = format!("bench_{name}_{}", args.len());
        let closed = ["--documents", "500", "--for", "1s", "--connections", "2"];
        let output = bench(&collection, &[args, &closed].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let run = json(&output);
        assert_eq!(run["operations"]["fill"]["documents"], 500, "{args:?}");
        assert!(run["operations"][name]["count"].as_u64() > Some(0), "{args:?}: {}", run["operations"]);
        assert_eq!(run["integrity"]["lost"], 0, "{args:?}");
    }
}

#[test]
fn an_invalid_option_is_refused_with_its_place_before_anything_is_written() {
    for (args, parts) in [
        (
            &["--insert", "{name: {$txt: {bytes: 20}}}"][..],
            &["did you mean \"$text\"?", "  {name: {$txt: {bytes: 20}}}\n          ^"][..],
        ),
        (&["--update", "{seen: 1}"], &["--update: `seen` is no operator", "  {seen: 1}\n   ^"]),
        (&["--find", "{a: [}"], &["--find: ", "  {a: [}\n"]),
        (
            &["--insert", "{a: 1}", "--rate", "0"],
            &["--rate 0: give the operations per second, a number over 0"],
        ),
        (&["--insert", "{a: 1}", "--find"], &["cannot be used with"]),
        (&["--insert", "{a: 1}", "--documents", "5"], &["cannot be used with"]),
        (&[], &["--insert", "--find", "--update"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = crate::program::plimsoll();
        let output = command.current_dir(dir.path()).arg("bench").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{args:?}");
    }
}
