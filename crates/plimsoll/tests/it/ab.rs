//! Tests comparisons whose runs are made in turns: refusals, interruptions and continuation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use plimsoll_process::procfs::{is_alive, started_by};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::compare::compare;
use crate::program::{inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn incomparable_sides_are_refused_before_a_server_is_contacted() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("ab_refused", 10, "{documents: 100}"));
    let nowhere = "mongodb://no-such-host.invalid:27017/?directConnection=true";
    let driver = ["--b", "set client=driver"];
    let itself = concat!("binary=", env!("CARGO_BIN_EXE_plimsoll"));
    for (args, part) in [
        (&[][..], "A and B are identical"),
        (&["--a", "set client=driver", "--b", "set client=driver"], "A and B are identical"),
        (&["--b", "set title=another"], "A and B are identical"),
        (&["--b", itself], "A and B are identical"),
        (&["--same", driver[0], driver[1]], "--same: A and B differ"),
        (&["--pairs", "7", driver[0], driver[1]], "--pairs 7: the smallest possible p is 0.0156"),
        (&["--pairs", "500", driver[0], driver[1]], "at most 200"),
        (&["--b", "client=driver"], "write server=URI, set PATH=VALUE or binary=FILE"),
        (&["--b", "set client=drivers"], "driver"),
        (&["--b", "set phases.7.stop=1"], "`phases` has no `7`"),
        (&["--b", "binary=/nowhere/plimsoll"], "this file does not exist"),
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

#[test]
fn the_wait_for_a_late_server_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("ab_late", 10, "{documents: 100}"));
    let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=1100";
    let args = ["ab", file.to_str().unwrap(), "--server", uri, "--b", "set client=driver"];
    let output = plimsoll_with(&args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let line = "waiting for 127.0.0.1:9: no answer yet, up to 1.1 s (serverSelectionTimeoutMS)";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

/// Waits until a condition holds.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("timed out waiting for {what} ({PATIENCE:?})");
}

/// Kills a comparison while a run of its third pair is under load, and waits for that run to end.
fn kill_in_the_third_pair(words: &[&str], out: &Path) {
    let mut begun = plimsoll().args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let events = out.join("003-a/events.ndjson");
    let printed = || fs::read_to_string(&events).unwrap_or_default();
    until("the load of the third pair", || printed().contains(r#""event":"phase""#));
    let runs = started_by(begun.id());
    kill_process(Pid::from_raw(i32::try_from(begun.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
    begun.wait().unwrap();
    until("the end of the run", || !runs.iter().any(|run| is_alive(*run)));
}

#[test]
fn undeclared_differences_are_refused_after_the_first_pair_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("ab_unlike", 10, "{documents: 100}"));
    // Another program, which measures something else without declaring it.
    let other = dir.path().join("other");
    let script = format!("#!/bin/sh\nexec {} \"$@\" --set seed=5\n", env!("CARGO_BIN_EXE_plimsoll"));
    fs::write(&other, script).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let out = dir.path().join("ab");
    let binary = format!("binary={}", other.display());
    let output = plimsoll_with(&[
        "ab",
        file.to_str().unwrap(),
        "--server",
        &shared(),
        "--out",
        out.to_str().unwrap(),
        "--b",
        &binary,
        "--b",
        "set document.extra.$text.bytes=100",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let shown = out.display();
    let forced = format!("plimsoll compare {shown}/*-a --with {shown}/*-b --force");
    for part in ["seed: 0 in A, 5 in B", &forced, &format!("remove {shown}/001-a and {shown}/001-b")] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let said = stderr(&output);
    let (_, refusal) = said.rsplit_once("plimsoll: ").unwrap();
    assert!(!refusal.contains("document.extra"), "a declared difference is not listed: {refusal}");
    assert!(out.join("001-b/run.json").exists() && !out.join("002-b").exists());
}

#[test]
fn a_run_that_the_scenario_ended_early_ends_the_comparison_like_its_expectation() {
    let dir = tempfile::tempdir().unwrap();
    let expect = "expect: {insert.response: [{threshold: \"med<1us\", abort_on_fail: true}]}\n";
    let text = inserts("ab_aborted", 10, "{duration: 60s}") + expect;
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("ab");
    let output = plimsoll_with(&[
        "ab",
        file.to_str().unwrap(),
        "--same",
        "--server",
        &shared(),
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    assert!(stderr(&output).contains("the scenario ended the run of A early"), "{}", stderr(&output));
    assert!(stderr(&output).contains("0 of 10 pairs are measured and kept"), "{}", stderr(&output));
    assert!(!out.join("001-b").exists());
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn an_interrupted_comparison_continues_and_finds_that_large_batches_cost_more() {
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
        until("the second pair", || out.join("002-b/events.ndjson").exists());
        kill_process(Pid::from_raw(i32::try_from(begun.id()).unwrap()).unwrap(), Signal::INT).unwrap();
        let begun = begun.wait_with_output().unwrap();
        assert_eq!(begun.status.code(), Some(130), "{}", stderr(&begun));
        assert!(
            stderr(&begun).contains("1 of 8 pairs are measured and kept. Continue with --resume"),
            "{}",
            stderr(&begun)
        );
        let first = fs::read_to_string(out.join("001-a/run.json")).unwrap();

        let resume = ["--resume", out.to_str().unwrap()];
        let other = plimsoll_with(
            &[&["ab", file.to_str().unwrap(), "--server", &server, "--b", "set seed=5"], &resume[..]]
                .concat(),
        );
        assert!(stderr(&other).contains("give the same"), "{}", stderr(&other));
        kill_in_the_third_pair(&[&words[..], &resume].concat(), &out);
        // Leftovers of the killed comparison do not block the next comparison.
        let ended = plimsoll_with(&[&words[..], &resume, &["--json"]].concat());
        assert_eq!((ended.status.code(), stderr(&ended).as_str()), (Some(99), ""));
        assert_eq!(
            first,
            fs::read_to_string(out.join("001-a/run.json")).unwrap(),
            "finished runs are not repeated"
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

        // Compares two of its runs separately.
        let [a, b] = ["001-a", "001-b"].map(|name| out.join(name).to_str().unwrap().to_owned());
        let single = compare(dir.path(), &[&a, &b, "--varies", "phases"]);
        assert_eq!(single.status.code(), Some(0), "{}", stderr(&single));
        let said = stdout(&single).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("NO VERDICT") && said.contains("A ratio is not a verdict"), "{said}");
        let refused = compare(dir.path(), &[&a, &b]);
        assert!(stderr(&refused).contains("insert.batch: 1 in A, 500 in B"), "{}", stderr(&refused));
    }
}
