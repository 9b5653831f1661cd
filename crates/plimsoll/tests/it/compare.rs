//! Comparisons: what they say, how they end, and what they refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use plimsoll_measure::run::{FORMAT, Operation, Run, ScenarioFacts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// How long a comparison may take to reach a moment.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run directory with a summary that says what `change` makes of it.
fn keep(dir: &Path, name: &str, at: u64, rate: f64, change: impl Fn(&mut Run)) -> PathBuf {
    let operation =
        Operation { count: 1_000, documents: 1_000, documents_per_s: rate, ..Operation::default() };
    let mut run = Run {
        format: FORMAT,
        id: format!("{}-{name}", dir.display()),
        command: "run".into(),
        started_ms: at,
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

/// A group of runs that were made at `first`, two moments later, and so on.
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

fn compare(dir: &Path, args: &[&str]) -> Output {
    let out = dir.join("comparison");
    if out.exists() {
        fs::remove_dir_all(&out).unwrap();
    }
    let all = [&["compare"], args, &["--out", out.to_str().unwrap()]].concat();
    plimsoll_with(&all)
}

#[test]
fn a_regression_ends_with_99_and_everything_is_written_down() {
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
    assert!(stdout(&little).contains("real but smaller than 15.0 %"), "{}", stdout(&little));
}

#[test]
fn a_side_that_rejected_everything_is_no_comparison_that_held() {
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
fn a_against_a_shows_no_difference_and_says_how_many_pairs_would() {
    let dir = tempfile::tempdir().unwrap();
    let rates = |shift: usize| {
        (0..10).map(|index| 5_000.0 * (1.0 + 0.05 * ((index * 3 + shift) % 7) as f64)).collect::<Vec<_>>()
    };
    let a = group(dir.path(), "a", 1, &rates(0), |_| ());
    let b = group(dir.path(), "b", 2, &rates(2), |_| ());
    let output = compare(dir.path(), &[a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in ["NO DIFFERENCE SHOWN", "more pairs would narrow that to ± 3.0 %"] {
        let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_differs_is_named_and_refused_unless_it_is_said_or_forced() {
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
    assert!(stdout(&output).contains("In a run of B documents are missing"), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_mend() {
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
        (
            &few,
            &others,
            &[][..],
            "7 pairs are too few: the smallest p that the test could give is 2 ÷ 2^7 = 0.0156",
        ),
        (&a, &few, &[], "A has 8 runs and B has 7"),
        (&a, &a, &[], "is there twice"),
        (&a, &later, &[], "were not measured in turns"),
        (&cut, &idle_b, &[], "was ended early"),
        (&idle_a, &idle_b, &[], "no operation was acknowledged"),
        (&a, &empty, &[], "holds no run"),
        (&nowhere, &b, &[], "is not there: name a run directory"),
        (&a, &b, &["--primary", "insert.rate"], "there is no such metric; there are insert.documents_per_s"),
        (&a, &b, &["--min-effect", "3"], "write a percentage"),
    ] {
        let args = [&[left.to_str().unwrap(), "--with", right.to_str().unwrap()], more].concat();
        let output = compare(dir.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let alone = plimsoll_with(&["compare", a.to_str().unwrap()]);
    assert!(stderr(&alone).contains("name what") && alone.status.code() == Some(2), "{}", stderr(&alone));
    let three = plimsoll_with(&["compare", a.to_str().unwrap(), b.to_str().unwrap(), few.to_str().unwrap()]);
    assert!(stderr(&three).contains("give those of B after --with"), "{}", stderr(&three));
}

#[test]
fn two_things_that_cannot_be_measured_in_turns_are_refused_before_a_server_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("ab_refused", 10, "{documents: 100}"));
    let nowhere = "mongodb://no-such-host.invalid:27017/?directConnection=true";
    let driver = ["--b", "set client=driver"];
    for (args, part) in [
        (&[][..], "A and B are the same thing"),
        (&["--a", "set client=driver", "--b", "set client=driver"], "A and B are the same thing"),
        (&["--same", driver[0], driver[1]], "--same: A and B differ"),
        (
            &["--pairs", "7", driver[0], driver[1]],
            "--pairs 7: the smallest p that so few pairs can give is 0.0156",
        ),
        (&["--pairs", "500", driver[0], driver[1]], "at most 200"),
        (&["--b", "client=driver"], "write server=URI, set PATH=VALUE or binary=FILE"),
        (&["--b", "set client=drivers"], "driver"),
        (&["--b", "set phases.7.stop=1"], "`phases` has no `7`"),
        (&["--b", "binary=/nowhere/plimsoll"], "there is no such file"),
        (&["--shard", "0/2", driver[0], driver[1]], "--shard: a comparison measures the whole load"),
        (&["--resume", "/nowhere", driver[0], driver[1]], "a directory that `plimsoll ab` made"),
    ] {
        let server = if args.contains(&"--resume") { shared() } else { nowhere.to_owned() };
        let all = [&["ab", file.to_str().unwrap(), "--server", &server], args].concat();
        let output = plimsoll_with(&all);
        assert_eq!(output.status.code(), Some(2), "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}

/// Waits until `path` is there.
fn wait_for(path: &Path) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if path.exists() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("{} is not there", path.display());
}

#[test]
fn a_comparison_that_was_interrupted_goes_on_and_finds_that_large_batches_cost_more_each() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("ab", 500, "{documents: 2_000}"));
    let (out, server) = (dir.path().join("ab"), shared());
    let words = [
        "ab",
        file.to_str().unwrap(),
        "--pairs",
        "8",
        "--server",
        &server,
        "--a",
        "set phases.0.load.insert.operation.insert.batch=1",
        "--primary",
        "client.cpu_us_per_operation",
    ];
    let begun = [&words[..], &["--out", out.to_str().unwrap()]].concat();
    let begun = plimsoll().args(begun).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // In the middle of the second pair.
    wait_for(&out.join("002-b/events.ndjson"));
    kill_process(Pid::from_raw(i32::try_from(begun.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let begun = begun.wait_with_output().unwrap();
    assert_eq!(begun.status.code(), Some(130), "{}", stderr(&begun));
    assert!(
        stderr(&begun).contains("1 of 8 pairs are measured and kept. Go on with --resume"),
        "{}",
        stderr(&begun)
    );
    let first = fs::read_to_string(out.join("001-a/run.json")).unwrap();

    let resume = ["--resume", out.to_str().unwrap()];
    let other = plimsoll_with(
        &[&["ab", file.to_str().unwrap(), "--server", &server, "--b", "set seed=5"], &resume[..]].concat(),
    );
    assert!(stderr(&other).contains("give the same"), "{}", stderr(&other));
    let ended = plimsoll_with(&[&words[..], &resume, &["--json"]].concat());
    assert_eq!((ended.status.code(), stderr(&ended).as_str()), (Some(99), ""));
    assert_eq!(
        first,
        fs::read_to_string(out.join("001-a/run.json")).unwrap(),
        "what was made is not made again"
    );
    let found = json(&ended);
    assert_eq!(
        (&found["verdict"], &found["method"]),
        (&json!("worse"), &json!({"kind": "exact", "pairs": 8}))
    );
    assert_eq!(found["differences"][0]["path"], "phases.0.load.insert.operation.insert.batch");
    assert_eq!(found["b"]["runs"][7]["directory"], "008-b");
    assert!(found["metrics"][0]["p"].as_f64().unwrap() <= 0.01);
    assert!(fs::read_to_string(out.join("comparison.html")).unwrap().contains("008-b/report.html"));

    // Two of its runs, by themselves.
    let [a, b] = ["001-a", "001-b"].map(|name| out.join(name).to_str().unwrap().to_owned());
    let single = compare(dir.path(), &[&a, &b, "--varies", "phases"]);
    assert_eq!(single.status.code(), Some(0), "{}", stderr(&single));
    let said = stdout(&single).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("NO VERDICT") && said.contains("That is a ratio and no verdict"), "{said}");
    let refused = compare(dir.path(), &[&a, &b]);
    assert!(stderr(&refused).contains("insert.batch: 1 in A, 500 in B"), "{}", stderr(&refused));
}
