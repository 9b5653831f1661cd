//! Tests resumed suites, after changes of their process, their program or their machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{WATCH, column, count, has_load, scenarios, signal, start, suite, wait_for, whole, write};
use crate::program::{shared, stderr};

#[test]
fn a_killed_suite_ends_its_run_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_killed");
    let rows = format!(
        "name,scenario,server,warm_up\nquick,quick.yaml,embedded:relaxed,0s\nlong,long.yaml,{},0s\n",
        shared()
    );
    let file = write(dir.path(), "killed.csv", &rows);
    let out = dir.path().join("out");
    let mut begun = start(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"]);
    wait_for("the load of the second test", || has_load(&out, "002-long"));
    signal(&begun, Signal::KILL);
    begun.wait().unwrap();
    let here = out.join("002-long/run");
    wait_for("the end of the run", || !is_running(here.to_str().unwrap()));
    // Appends an incomplete line, like a kill during a write.
    let csv = fs::read(out.join("results.csv")).unwrap();
    fs::write(out.join("results.csv"), [&csv[..], b"2,long,scen"].concat()).unwrap();
    let elsewhere = on_another_machine(&out, || suite(&["--resume", out.to_str().unwrap(), "-q"]));
    assert!(stderr(&elsewhere).contains("another number of cores (999"), "{}", stderr(&elsewhere));
    assert_eq!((elsewhere.status.code(), column(&out, "outcome").len()), (Some(2), 1));
    let ended = suite(&["--resume", out.to_str().unwrap(), "-q"]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert_eq!(column(&out, "outcome"), ["completed", "completed"]);
    assert!(out.join("002-long.cut-1").is_dir());
    assert_eq!(
        count("suite_killed_long_2"),
        0,
        "the leftovers of the killed suite did not block it, and are dropped"
    );
}

/// Runs `does` while the suite claims another machine with many cores.
fn on_another_machine<T>(out: &Path, does: impl FnOnce() -> T) -> T {
    let (file, mut other) = (out.join("suite.json"), whole(out));
    let was = fs::read_to_string(&file).unwrap();
    other["environment"]["cores"] = 999.into();
    fs::write(&file, other.to_string()).unwrap();
    let done = does();
    fs::write(&file, was).unwrap();
    done
}

/// Whether a process has a word in its command line.
fn is_running(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(word))
}

#[test]
fn a_suite_continues_when_its_program_was_rebuilt_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_gone");
    let rows = "name,scenario,server,warm_up,duration\nlong,long.yaml,embedded:relaxed,0s,2s\nquick,quick.yaml,embedded:relaxed,0s,\n";
    let file = write(dir.path(), "gone.csv", rows);
    let out = dir.path().join("out");
    let (program, copy) = (env!("CARGO_BIN_EXE_plimsoll"), dir.path().join("plimsoll"));
    fs::hard_link(program, &copy).or_else(|_| fs::copy(program, &copy).map(drop)).unwrap();
    let words = ["suite", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q"];
    let begun = Command::new(&copy).args(words).args(WATCH).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the load of the first test", || has_load(&out, "001-long"));
    fs::remove_file(&copy).unwrap();
    let ended = begun.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert_eq!(column(&out, "outcome"), ["completed", "completed"]);
}
