//! Tests that the processes of a comparison end with it, even when it is killed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use plimsoll_measure::clock::{self, SECOND_NS};

use crate::program::{inserts, plimsoll, scenario};

/// The time limit of a wait, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let began = clock::now();
    while !is_there() {
        assert!(clock::now().since(began) < PATIENCE_NS, "timed out waiting for {what}");
        sleep(Duration::from_millis(50));
    }
}

/// The command lines with a path in `dir`: those of runs, and of servers with their data there.
fn running(dir: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(dir.to_str().unwrap())).collect()
}

fn killed(a: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let file = scenario(dir.path(), &inserts("bound", 10, "{duration: 600s}"));
    let out = dir.path().join("ab");
    let words = ["ab", file.to_str().unwrap(), "--server", "embedded:relaxed", "--pairs", "8"];
    let mut command = plimsoll();
    command.args(words).args(["--out", out.to_str().unwrap(), "--b", "set seed=2"]).args(a);
    command.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::null());
    let mut ab = command.spawn().unwrap();
    wait_for("the load of the first run", || {
        let events = fs::read_to_string(out.join("001-a/events.ndjson")).unwrap_or_default();
        events.contains(r#""event":"interval""#)
    });
    let begun = running(dir.path());
    assert!(begun.iter().any(|line| line.contains(" run ")), "a run: {begun:?}");
    assert!(begun.iter().any(|line| line.contains(temporary.to_str().unwrap())), "a server: {begun:?}");
    ab.kill().unwrap();
    ab.wait().unwrap();
    wait_for("the end of the run and of its server", || running(dir.path()).is_empty());
}

#[test]
fn a_killed_comparison_ends_its_run_and_its_server() {
    killed(&[]);
}

#[test]
fn a_run_of_another_binary_ends_with_its_comparison_as_well() {
    killed(&["--a", concat!("binary=", env!("CARGO_BIN_EXE_plimsoll"))]);
}
