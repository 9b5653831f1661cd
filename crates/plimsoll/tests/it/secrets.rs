//! Tests that secrets are never printed: neither on the terminal nor in a file or on a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use plimsoll_measure::run::{FORMAT, Operation, Run, ScenarioFacts};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{guarded, inserts, plimsoll, plimsoll_with, scenario, stderr, stdout};

/// The time limit for the first run to begin.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes the run of a service with a token.
fn keep(dir: &Path, token: &str) -> PathBuf {
    let scenario = ScenarioFacts { hash: format!("of {}", token.len()), ..ScenarioFacts::default() };
    let operation =
        Operation { count: 1_000, documents: 1_000, documents_per_s: 9.0, ..Operation::default() };
    let operations = [("insert".to_owned(), operation)].into();
    let run = Run {
        format: FORMAT,
        id: format!("id-{}", token.len()),
        command: "run".into(),
        scenario,
        operations,
        ..Run::default()
    };
    let path = dir.join(format!("run-{}", token.len()));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let yaml = format!("http:\n  auth: {{bearer: {{token: {token}}}}}\n  headers: {{x-tenant: {token}}}\n");
    fs::write(path.join("scenario.yaml"), yaml).unwrap();
    path
}

#[test]
fn runs_with_different_tokens_are_compared_without_printing_them() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["swordfish", "open-sesame"].map(|token| keep(dir.path(), token));
    let out = dir.path().join("comparison");
    let words = ["compare", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let refused = plimsoll_with(&words);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let forced = plimsoll_with(&[&words[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    let files =
        ["comparison.json", "comparison.html"].map(|file| fs::read_to_string(out.join(file)).unwrap());
    let said = [stderr(&refused), stdout(&forced), stderr(&forced)];
    for text in said.iter().chain(&files) {
        assert!(!text.contains("swordfish") && !text.contains("open-sesame"), "{text}");
    }
    for path in ["http.auth.bearer.token", "http.headers.x-tenant"] {
        assert!(stderr(&refused).contains(path) && files[0].contains(path), "{path}: {}", stderr(&refused));
    }
}

#[test]
fn an_invalid_argument_is_not_repeated_with_its_secret() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("secrets", 10, "{documents: 100}"));
    let output =
        plimsoll_with(&["ab", file.to_str().unwrap(), "--b", "http.auth={bearer: {token: swordfish}}"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("http.auth=…") && !said.contains("swordfish"), "{said}");
}

/// The command lines of runs in `dir`, as every user sees them.
fn runs(dir: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(" run ") && line.contains(dir.to_str().unwrap())).collect()
}

/// Starts a command whose runs are separate processes. Reads the command line of the first run, in `run`,
/// while it loads a server with a password.
fn seen(dir: &Path, words: &[&str], run: &str) -> Output {
    let out = dir.join("out");
    let mut command = plimsoll();
    command.args(words).args(["--out", out.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = command.spawn().unwrap();
    let events = out.join(run).join("events.ndjson");
    let has_load = || fs::read_to_string(&events).unwrap_or_default().contains(r#""event":"interval""#);
    let is_there = (0..PATIENCE.as_millis() / 50).any(|_| {
        sleep(Duration::from_millis(50));
        has_load()
    });
    let lines = runs(dir);
    kill_process(Pid::from_raw(i32::try_from(begun.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let ended = begun.wait_with_output().unwrap();
    assert!(is_there, "no load, so the server refused the password: {}", stderr(&ended));
    assert!(!lines.is_empty(), "a run is a separate process");
    assert!(lines.iter().all(|line| !line.contains("ann:right")), "{lines:?}");
    ended
}

#[test]
fn no_process_of_a_suite_or_of_a_comparison_shows_the_password_of_its_server() {
    let server = guarded();
    let uri = format!("mongodb://ann:right@{}/?directConnection=true", server.address());
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), &inserts("seen", 10, "{duration: 60s}"));
    let suite = dir.path().join("suite.yaml");
    let row = format!("{{name: one, scenario: scenario.yaml, server: '{uri}', warm_up: 0s}}");
    fs::write(&suite, format!("tests:\n  - {row}\n")).unwrap();
    let ended = seen(dir.path(), &["suite", suite.to_str().unwrap()], "001-one/run");
    assert_eq!(ended.status.code(), Some(130), "{}", stderr(&ended));

    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("seen_in_turns", 10, "{duration: 60s}"));
    let b = format!("server={uri}");
    // A typed argument is visible in the process that gets it; the runs are other processes.
    let words = ["ab", file.to_str().unwrap(), "--server", &uri, "--b", &b, "--b", "set seed=2"];
    let ended = seen(dir.path(), &words, "001-a");
    assert_eq!(ended.status.code(), Some(130), "{}", stderr(&ended));
}

#[test]
fn an_error_in_one_argument_does_not_print_the_password_in_another() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("redacted", 10, "{documents: 100}"));
    let sets = ["--set", "server=mongodb://ann:swordfish@h", "--set", "titel=x"];
    let output = plimsoll_with(&[&["run", file.to_str().unwrap()], &sets[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("did you mean `title`?") && !said.contains("swordfish"), "{said}");
    let output = plimsoll_with(&["serve", "telemetry", "--set", "database=mongodb://ann:swordfish@h"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("--set database: ") && !said.contains("swordfish"), "{said}");
}
