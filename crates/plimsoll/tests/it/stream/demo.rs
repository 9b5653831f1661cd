//! Tests the demonstration, as a new user runs it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use plimsoll_process::procfs::{is_alive, started_by};

use crate::program::{plimsoll, plimsoll_with, stderr, stdout};

#[test]
fn a_demonstration_kills_audits_and_reports_the_result() {
    for victim in ["server", "broker"] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("demo");
        let words = ["pipeline", "demo", "--for", "9s", "--rate", "1000", "--kill", victim, "--out"];
        let output = plimsoll_with(&[&words[..], &[out.to_str().unwrap()]].concat());
        let (said, printed) = (stderr(&output), stdout(&output));
        assert_eq!(output.status.code(), Some(0), "{said}{printed}");
        assert!(printed.contains("0 missing, 0 duplicated, every payload unchanged"), "{printed}");
        assert!(said.contains("the pipeline is killed (SIGKILL)"), "{said}");
        assert!(!said.contains("Ctrl-C"), "nobody pressed Ctrl-C: {said}");
        assert!(said.contains("metrics at http://127.0.0.1:") && said.contains("  integrity "), "{said}");
        assert!(out.join("run-2/pipeline.json").is_file() && !out.join("run-1/pipeline.json").exists());
    }
}

/// The children and grandchildren of a process.
fn below(pid: u32) -> BTreeSet<u32> {
    let own = started_by(pid);
    own.iter().flat_map(|pid| below(*pid)).chain(own.iter().copied()).collect()
}

#[test]
fn an_interrupted_demonstration_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = plimsoll();
    command.args(["pipeline", "demo", "--out"]).arg(dir.path().join("demo"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("integrity") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the demonstration ended by itself");
    }
    let started = below(child.id());
    // The broker, the server, the load and the pipeline.
    assert!(started.len() >= 4, "{started:?}");
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left: Vec<_> = started.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn missing_programs_are_reported_in_one_sentence() {
    let empty = tempfile::tempdir().unwrap();
    let output = plimsoll().args(["pipeline", "demo"]).env("PLIMSOLL_CACHE", empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(
        said.contains("the broker and the embedded server are not installed: run `cargo xtask setup`"),
        "{said}"
    );
}
