//! Tests the history of a scenario: changes, exit codes and refusals.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::run::{FORMAT, Joined, Operation, Run, ScenarioFacts, Verdict};
use serde_json::json;

use crate::program::{json, plimsoll, plimsoll_with, stderr, stdout};

/// The start of the first run, in milliseconds since 1970: 2026-03-22.
const FIRST_MS: u64 = 1_774_137_600_000;
/// A day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// Writes a directory with a run a day at these rates, within a percent, modified by `change`.
fn keep(dir: &Path, name: &str, rates: &[f64], change: impl Fn(usize, &mut Run)) -> PathBuf {
    let group = dir.join(name);
    for (day, rate) in rates.iter().enumerate() {
        let rate = rate * (1.0 + 0.005 * ((day * 7 % 5) as f64 - 2.0));
        let response_ns = Latency { count: 1_000, p50: Some((1e9 / rate) as u64), ..Latency::default() };
        let operation = Operation {
            count: 1_000,
            documents: 1_000,
            documents_per_s: rate,
            response_ns,
            ..Operation::default()
        };
        let mut run = Run {
            format: FORMAT,
            id: format!("{name}-{day}"),
            command: "run".into(),
            started_ms: FIRST_MS + day as u64 * DAY_MS,
            verdict: Verdict::Pass,
            scenario: ScenarioFacts { hash: "aa".into(), title: "writes".into(), ..ScenarioFacts::default() },
            operations: [("insert".to_owned(), operation)].into(),
            ..Run::default()
        };
        change(day, &mut run);
        // The newest run has the first name: directory order is not time order.
        let path = group.join(format!("{:03}", rates.len() - day));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    }
    group
}

/// The number of runs at each rate.
fn rates(levels: &[(f64, usize)]) -> Vec<f64> {
    levels.iter().flat_map(|(rate, runs)| std::iter::repeat_n(*rate, *runs)).collect()
}

/// Runs that became slower with a new server.
fn slower(dir: &Path) -> PathBuf {
    keep(dir, "slower", &rates(&[(5_000.0, 12), (4_500.0, 10)]), |day, run| {
        run.server.version = Some(if day < 12 { "8.0" } else { "8.1" }.into());
        run.environment.plimsoll = format!("0.{day}");
    })
}

/// The printed text in one line.
fn said(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_change_is_reported_with_its_day_its_size_and_the_new_version() {
    let dir = tempfile::tempdir().unwrap();
    let runs = slower(dir.path());
    let output = plimsoll_with(&["history", runs.to_str().unwrap()]);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), ""),
        "without --gate it only reports"
    );
    let found = said(&stdout(&output));
    for part in [
        "22 runs · 2026-03-22 00:00 to 2026-04-12 00:00",
        "THE NEWEST CHANGE IS FOR THE WORSE",
        "documents/s of insert 22 4,500 2026-04-03 00:00 −10.0 % 0.001 worse",
        "Worse: documents per second of insert went from 5,000 to 4,500 (−10.0 %, p = 0.001)",
        "Worse: median response of insert went from",
        "server.version from \"8.0\" to \"8.1\"",
    ] {
        assert!(found.contains(part), "{part}: {}", stdout(&output));
    }
}

#[test]
fn the_gate_fails_for_regressions_and_too_few_runs() {
    let dir = tempfile::tempdir().unwrap();
    let worse = slower(dir.path());
    let again = keep(dir.path(), "again", &rates(&[(5_000.0, 12), (4_500.0, 10), (5_000.0, 10)]), |_, _| ());
    let even = keep(dir.path(), "even", &rates(&[(5_000.0, 20)]), |_, _| ());
    let few = keep(dir.path(), "few", &rates(&[(5_000.0, 9)]), |_, _| ());
    for (runs, code, part) in [
        (&worse, 99, "THE NEWEST CHANGE IS FOR THE WORSE"),
        (&again, 0, "THE NEWEST CHANGE IS FOR THE BETTER"),
        (&even, 0, "NO CHANGE SHOWN"),
        (&few, 99, "it is known in 9 runs, and 10 are needed"),
    ] {
        let output = plimsoll_with(&["history", runs.to_str().unwrap(), "--gate"]);
        assert_eq!(output.status.code(), Some(code), "{part}: {}", stderr(&output));
        assert!(said(&stdout(&output)).contains(part), "{part}: {}", stdout(&output));
    }
}

#[test]
fn the_history_is_printed_as_json_and_for_one_metric() {
    let dir = tempfile::tempdir().unwrap();
    let runs = slower(dir.path());
    let output =
        plimsoll_with(&["history", runs.to_str().unwrap(), "--json", "--metric", "insert.response_ns.p50"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let found = json(&output);
    assert_eq!((&found["format"], &found["title"]), (&json!(1), &json!("writes")));
    assert_eq!(found["metrics"].as_array().unwrap().len(), 1);
    let metric = &found["metrics"][0];
    assert_eq!(
        (&metric["primary"], &metric["known"], &metric["needed"]),
        (&json!(true), &json!(22), &json!(null))
    );
    let change = &metric["changes"][0];
    assert_eq!(
        (&change["before"], &change["after"], &change["verdict"]),
        (&json!(11), &json!(12), &json!("worse"))
    );
    assert_eq!(found["runs"][12]["id"], json!("slower-12"), "in order of time");
    assert_eq!(found["runs"][12]["started"], json!("2026-04-03T00:00:00Z"));
    assert_eq!(metric["values"].as_array().unwrap().len(), 22);
    assert!(found["conclusions"][0].as_str().unwrap().starts_with("Worse: median response of insert"));
}

#[test]
fn runs_without_a_history_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let even = rates(&[(5_000.0, 12)]);
    let mixed = keep(dir.path(), "mixed", &even, |day, run| run.environment.cores = 4 + (day / 6) as u32);
    let cut = keep(dir.path(), "cut", &even, |day, run| run.interrupted = day == 3);
    let plain = keep(dir.path(), "plain", &even, |_, _| ());
    let one = plain.join("001");
    let nowhere = dir.path().join("nowhere");
    for (runs, more, part) in [
        (&mixed, &[][..], "environment.cores: 4 in the first, 5 in the second"),
        (&cut, &[], "incomplete run"),
        (&one, &[], "1 run has no history"),
        (&plain, &[one.to_str().unwrap()], "duplicate run"),
        (&nowhere, &[], "does not exist: name a run directory"),
        (&plain, &["--metric", "insert.rate"], "unknown metric; known metrics: insert.documents_per_s"),
    ] {
        let output = plimsoll_with(&[&["history", runs.to_str().unwrap()], more].concat());
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let forced = plimsoll_with(&["history", mixed.to_str().unwrap(), "--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    let found = said(&stdout(&forced));
    assert!(found.contains("they differ in environment.cores from 4 to 5"), "{found}");
}

#[test]
fn a_merged_run_counts_once_beside_its_shards() {
    let dir = tempfile::tempdir().unwrap();
    let merged = |_: usize, run: &mut Run| run.joined = Some(Joined::default());
    let runs = keep(dir.path(), "merged", &rates(&[(5_000.0, 12), (4_500.0, 10)]), merged);
    let file = runs.join("001/run.json");
    let mut shard: Run = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    shard.joined = None;
    for number in 0..2 {
        shard.scenario.shard = format!("{number}/2");
        let path = runs.join(format!("shard-{number}"));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("run.json"), serde_json::to_string(&shard).unwrap()).unwrap();
    }
    let output = plimsoll().args(["history", "."]).current_dir(&runs).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("22 runs"), "{}", stdout(&output));
}
