//! Tests a suite's columns about processes against the system's own values.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_host::{Cache, embedded};

use super::{column, scenarios, start, wait_for, write};
use crate::program::stderr;

/// A value that the operating system reports about a process.
fn status(process: &Path, key: &str) -> Option<String> {
    let text = fs::read_to_string(process.join("status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// The process of a program that another process has started.
fn started_by(parent: u32, program: &Path) -> Option<PathBuf> {
    let is_it = |process: &PathBuf| {
        status(process, "PPid") == Some(parent.to_string())
            && fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program)
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).find(is_it)
}

/// The first and the last CPU that this process may use: different CPUs if it may use two.
fn first_and_last_cpu() -> [String; 2] {
    let all = status(Path::new("/proc/self"), "Cpus_allowed_list").unwrap();
    let is_sign = |sign: char| matches!(sign, '-' | ',');
    [all.split(is_sign).next(), all.rsplit(is_sign).next()].map(|cpu| cpu.unwrap().to_owned())
}

#[test]
fn a_server_runs_on_the_cpus_of_its_row_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    scenarios(dir.path(), "suite_held");
    let [client, server] = first_and_last_cpu();
    let rows = format!(
        "name,scenario,server,warm_up,duration,client_cpus,server_cpus\n\
         long,long.yaml,embedded:relaxed,0s,2s,{client},{server}\n"
    );
    let file = write(dir.path(), "held.csv", &rows);
    let out = dir.path().join("out");
    let program = embedded::binary(&Cache::locate().unwrap()).canonicalize().unwrap();
    let begun = start(&[file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--quiet"]);
    wait_for("the server", || started_by(begun.id(), &program).is_some());
    let held = started_by(begun.id(), &program).and_then(|process| status(&process, "Cpus_allowed_list"));
    let ended = begun.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert_eq!((held, column(&out, "outcome")), (Some(server), vec!["completed".to_owned()]));
}
