//! Tests comparisons of existing runs: messages, exit codes and refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plimsoll_measure::run::{Expectation, FORMAT, Operation, Run, ScenarioFacts, Verdict};
use serde_json::json;

use crate::program::{json, plimsoll_with, stderr, stdout};

/// Writes a run directory whose summary `change` has modified.
fn keep(dir: &Path, name: &str, at: u64, rate: f64, change: impl Fn(&mut Run)) -> PathBuf {
    let operation =
        Operation { count: 1_000, documents: 1_000, documents_per_s: rate, ..Operation::default() };
    let mut run = Run {
        format: FORMAT,
        id: format!("{}-{name}", dir.display()),
        command: "run".into(),
        started_ms: at,
        verdict: Verdict::Pass,
        scenario: ScenarioFacts { hash: "aa".into(), title: "writes".into(), ..ScenarioFacts::default() },
        operations: [("insert".to_owned(), operation)].into(),
        ..Run::default()
    };
    change(&mut run);
    let path = dir.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    path
}

/// Writes a group of runs. The first run started at `first`, in milliseconds, and each further run 2 ms
/// later.
fn group(dir: &Path, name: &str, first: u64, rates: &[f64], change: impl Fn(&mut Run)) -> PathBuf {
    let group = dir.join(name);
    for (index, rate) in rates.iter().enumerate() {
        keep(&group, &format!("{index:03}"), first + 2 * index as u64, *rate, &change);
    }
    group
}

/// Rates that scatter by a few percent around `centre`.
fn around(centre: f64, pairs: usize) -> Vec<f64> {
    (0..pairs).map(|index| centre * (1.0 + 0.01 * ((index * 7 % 5) as f64 - 2.0))).collect()
}

/// Compares, and keeps all files in one directory.
pub fn compare(dir: &Path, args: &[&str]) -> Output {
    let out = dir.join("comparison");
    if out.exists() {
        fs::remove_dir_all(&out).unwrap();
    }
    let all = [&["compare"], args, &["--out", out.to_str().unwrap()]].concat();
    plimsoll_with(&all)
}

#[test]
fn a_regression_ends_with_99_and_all_files_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let a = group(dir.path(), "a", 1, &around(5_000.0, 10), |_| ());
    let b = group(dir.path(), "b", 2, &around(4_500.0, 10), |_| ());
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let output = compare(dir.path(), &[a, "--with", b]);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    for part in
        ["B IS WORSE", "documents per second of insert", "−10.0 %", "p = 0.002, 10 pairs", "comparison.html"]
    {
        assert!(stdout(&output).contains(part), "{part}: {}", stdout(&output));
    }
    let kept = dir.path().join("comparison");
    assert!(fs::read_to_string(kept.join("comparison.html")).unwrap().contains("<figure"));
    let again = plimsoll_with(&["compare", kept.to_str().unwrap(), "--json"]);
    assert_eq!((again.status.code(), stderr(&again).as_str()), (Some(99), ""));
    let kept = fs::read_to_string(kept.join("comparison.json")).unwrap();
    assert_eq!(json(&again), serde_json::from_str::<serde_json::Value>(&kept).unwrap());
    assert_eq!((&json(&again)["verdict"], &json(&again)["format"]), (&json!("worse"), &json!(1)));

    let better = compare(dir.path(), &[b, "--with", a]);
    assert_eq!(better.status.code(), Some(0));
    assert!(stdout(&better).contains("B IS BETTER"), "{}", stdout(&better));
    let little = compare(dir.path(), &[a, "--with", b, "--min-effect", "15%"]);
    assert_eq!(little.status.code(), Some(0));
    assert!(stdout(&little).contains("real but smaller than the required 15.0 %"), "{}", stdout(&little));
}

#[test]
fn a_side_that_rejected_every_operation_fails() {
    let dir = tempfile::tempdir().unwrap();
    let costs = |run: &mut Run| run.client.cpu_us_per_operation = Some(5.0);
    let a = group(dir.path(), "a", 1, &around(5_000.0, 10), costs);
    let b = group(dir.path(), "b", 2, &[0.0; 10], |run| {
        costs(run);
        let rejected = run.operations.get_mut("insert").unwrap();
        (rejected.count, rejected.documents) = (0, 0);
        rejected.errors.insert("Unauthorized".into(), 1_000);
    });
    let output = compare(dir.path(), &[a.to_str().unwrap(), "--with", b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(99), "{}", stdout(&output));
    let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["There is no verdict on documents per second of insert", "B did nothing in 10 of 10 pairs"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_against_a_shows_no_difference_and_recommends_a_number_of_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let rates = |shift: usize| {
        (0..10).map(|index| 5_000.0 * (1.0 + 0.02 * ((index * 3 + shift) % 7) as f64)).collect::<Vec<_>>()
    };
    let a = group(dir.path(), "a", 1, &rates(0), |_| ());
    let b = group(dir.path(), "b", 2, &rates(2), |_| ());
    let output = compare(dir.path(), &[a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in ["NO DIFFERENCE SHOWN", "a new comparison with about", "pairs would narrow that to ± 3.0 %"]
    {
        let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn differences_are_refused_unless_declared_or_forced() {
    let dir = tempfile::tempdir().unwrap();
    let a = group(dir.path(), "a", 1, &around(5_000.0, 8), |_| ());
    let b = group(dir.path(), "b", 2, &around(4_000.0, 8), |run| run.server.version = Some("8.0".into()));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let refused = compare(dir.path(), &[a, "--with", b]);
    assert_eq!(refused.status.code(), Some(2));
    let message = stderr(&refused);
    assert!(
        message.contains("server.version: nothing in A, \"8.0\" in B") && message.contains("--varies"),
        "{message}"
    );
    assert!(!dir.path().join("comparison").exists(), "nothing is written");
    let said = compare(dir.path(), &[a, "--with", b, "--varies", "server"]);
    assert_eq!(said.status.code(), Some(99), "{}", stderr(&said));
    let forced = compare(dir.path(), &[a, "--with", b, "--force", "--json"]);
    assert_eq!(forced.status.code(), Some(99), "{}", stderr(&forced));
    assert!(json(&forced)["forced"][0].as_str().unwrap().contains("server.version"));
}

#[test]
fn lost_documents_weigh_more_than_speed() {
    let dir = tempfile::tempdir().unwrap();
    let a = group(dir.path(), "a", 1, &around(5_000.0, 8), |_| ());
    let lost =
        plimsoll_measure::integrity::Integrity { acknowledged: 5, found: 4, lost: 1, ..Default::default() };
    let b = group(dir.path(), "b", 2, &around(9_000.0, 8), |run| run.integrity = Some(lost.clone()));
    let output = compare(dir.path(), &[a.to_str().unwrap(), "--with", b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("A run of B lost, changed, duplicated or invented documents"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn incomparable_runs_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let all = |name: &str, first: u64, pairs: usize| {
        group(dir.path(), name, first, &around(5_000.0, pairs), |_| ())
    };
    let (a, b) = (all("a", 1, 8), all("b", 2, 8));
    let (few, others, later) = (all("few", 1, 7), all("others", 2, 7), all("later", 100, 8));
    let cut = keep(dir.path(), "cut", 1, 5.0, |run| run.interrupted = true);
    let idle = |name: &str, at| keep(dir.path(), name, at, 5.0, |run| run.operations.clear());
    let (idle_a, idle_b) = (idle("idle-a", 1), idle("idle-b", 2));
    let (empty, nowhere) = (dir.path().join("empty"), dir.path().join("nowhere"));
    fs::create_dir(&empty).unwrap();
    for (left, right, more, part) in [
        (&few, &others, &[][..], "7 pairs are too few: the smallest possible p is 2 ÷ 2^7 = 0.0156"),
        (&a, &few, &[], "A has 8 runs and B has 7"),
        (&a, &a, &[], "duplicate run"),
        (&a, &later, &[], "were not measured in turns"),
        (&cut, &idle_b, &[], "incomplete run"),
        (&idle_a, &idle_b, &[], "no operation was acknowledged"),
        (&a, &empty, &[], "holds no run"),
        (&nowhere, &b, &[], "does not exist: name a run directory"),
        (&a, &b, &["--primary", "insert.rate"], "unknown metric; known metrics: insert.documents_per_s"),
        (&a, &b, &["--min-effect", "3"], "write a percentage"),
    ] {
        let args = [&[left.to_str().unwrap(), "--with", right.to_str().unwrap()], more].concat();
        let output = compare(dir.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let alone = plimsoll_with(&["compare", a.to_str().unwrap()]);
    assert!(
        stderr(&alone).contains("name what to compare") && alone.status.code() == Some(2),
        "{}",
        stderr(&alone)
    );
    let three = plimsoll_with(&["compare", a.to_str().unwrap(), b.to_str().unwrap(), few.to_str().unwrap()]);
    assert!(stderr(&three).contains("list those of B after --with"), "{}", stderr(&three));
}

#[test]
fn a_faster_b_that_breaks_an_expectation_of_a_ends_with_99() {
    let dir = tempfile::tempdir().unwrap();
    let expecting = |held: bool| {
        move |run: &mut Run| {
            let (metric, expression) = ("insert.response".into(), "p(99)<5ms".into());
            run.expectations = vec![Expectation { metric, expression, held, ..Expectation::default() }];
            run.verdict = if held { Verdict::Pass } else { Verdict::Fail };
        }
    };
    let a = group(dir.path(), "a", 1, &around(5_000.0, 8), expecting(true));
    let b = group(dir.path(), "b", 2, &around(9_000.0, 8), expecting(false));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let output = compare(dir.path(), &[a, "--with", b, "--json"]);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["verdict"], json!("better"));
    let first = found["conclusions"][0].as_str().unwrap();
    let said = "insert.response p(99)<5ms did not hold in 8 of 8 runs of B and 0 of 8 of A: B violates";
    assert!(first.starts_with(said), "{first}");
    let turned = compare(dir.path(), &[b, "--with", a, "--min-effect", "90%"]);
    assert_eq!(turned.status.code(), Some(0), "A alone breaks it: {}", stdout(&turned));
}

#[test]
fn a_faster_b_with_failures_ends_with_99_and_a_rarely_invalid_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let failing = |run: &mut Run| {
        // Only the third run has an error.
        if run.started_ms == 6 {
            run.operations.get_mut("insert").unwrap().errors.insert("timeout".into(), 1);
        }
    };
    let invalid_up_to = |last: u64| {
        move |run: &mut Run| {
            run.verdict = if run.started_ms <= last { Verdict::Invalid } else { Verdict::Pass };
        }
    };
    let a = group(dir.path(), "a", 1, &around(5_000.0, 8), |_| ());
    let b = |name: &str, change: &dyn Fn(&mut Run)| group(dir.path(), name, 2, &around(9_000.0, 8), change);
    let failing = b("failing", &failing);
    for (b, code, part) in [
        (&failing, 99, "B IS BETTER, AND B FAILS WHERE A DOES NOT"),
        (&failing, 99, "Operations of B failed (1 in all), and none of A: that is a failure"),
        (&b("all-invalid", &invalid_up_to(100)), 99, "B is significantly more often invalid"),
        (&b("once-invalid", &invalid_up_to(2)), 0, "0 of 8 runs of A and 1 of 8 of B are invalid"),
    ] {
        let output = compare(dir.path(), &[a.to_str().unwrap(), "--with", b.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(code), "{part}: {}", stdout(&output));
        let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{part}: {said}");
    }
    let turned = compare(
        dir.path(),
        &[failing.to_str().unwrap(), "--with", a.to_str().unwrap(), "--min-effect", "90%"],
    );
    assert_eq!(turned.status.code(), Some(0), "A alone fails: {}", stdout(&turned));
}

#[test]
fn a_run_is_named_by_its_directory_its_summary_or_the_directory_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    let runs = group(dir.path(), "runs", 1, &around(5_000.0, 2), |_| ());
    let newest = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let file = fs::File::options().write(true).open(newest.join("run.json")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000))
        .unwrap();
    let copied = dir.path().join("copied.json");
    fs::copy(newest.join("run.json"), &copied).unwrap();
    let shown = |path: &Path| {
        let output = plimsoll_with(&["show", path.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", path.display(), stderr(&output));
        json(&output)["id"].clone()
    };
    let own = shown(&newest);
    for path in [newest.join("run.json"), runs.clone(), copied] {
        assert_eq!(shown(&path), own, "{}", path.display());
    }
    let other = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    for (a, b) in [(other.clone(), newest.clone()), (other.join("run.json"), newest.join("run.json"))] {
        let output = compare(dir.path(), &[a.to_str().unwrap(), b.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::remove_dir_all(dir.path().join("comparison")).unwrap();
    }
    compare(dir.path(), &[other.to_str().unwrap(), newest.to_str().unwrap()]);
    let kept = dir.path().join("comparison");
    for path in [kept.clone(), kept.join("comparison.json")] {
        for command in ["compare", "show"] {
            let output = plimsoll_with(&[command, path.to_str().unwrap()]);
            assert!(
                stdout(&output).contains("NO VERDICT"),
                "{command} {}: {}",
                path.display(),
                stderr(&output)
            );
        }
    }
}
