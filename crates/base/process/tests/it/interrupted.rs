//! Tests that commands with the lifetime `Interrupted` finish their work after SIGINT, also when their owner is
//! killed, and that bound commands die with their owner.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_process::procfs::is_alive;
use plimsoll_process::{Child, Lifetime};

use crate::owner::{Owner, again, soon};

/// The variable with the file in which the program reports its state.
const STATE_FILE: &str = "PLIMSOLL_INTERRUPTED_STATE";
const PATIENCE: Duration = Duration::from_secs(60);

/// Handles SIGINT itself, independently of the test runner.
#[test]
#[ignore = "the program that other tests interrupt"]
fn works_until_it_is_interrupted() {
    let Some(state) = env::var_os(STATE_FILE) else { return };
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted)).unwrap();
    fs::write(&state, "at work").unwrap();
    soon("the program receives SIGINT", || interrupted.load(Ordering::Relaxed));
    fs::write(&state, "finished").unwrap();
}

fn work(state: &Path) -> Command {
    let mut command = again("interrupted::works_until_it_is_interrupted");
    command.env(STATE_FILE, state).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn is_in_state(state: &Path, expected: &str) -> bool {
    fs::read_to_string(state).is_ok_and(|text| text == expected)
}

/// Starts a program and waits until it works.
fn at_work(state: &Path, lifetime: Lifetime) -> Child {
    let child = Child::run(work(state), lifetime).unwrap();
    soon("it is at work", || is_in_state(state, "at work"));
    child
}

#[test]
fn a_command_that_is_interrupted_finishes_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let child = at_work(&state, Lifetime::Bound);
    assert_eq!(child.ended(), None);
    child.interrupt().unwrap();
    assert!(child.wait(PATIENCE).unwrap().success());
    assert!(is_in_state(&state, "finished"));
    child.interrupt().unwrap();
}

#[test]
fn a_dropped_command_is_killed_if_it_is_bound_and_otherwise_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    for (lifetime, last) in [(Lifetime::Interrupted, "finished"), (Lifetime::Bound, "at work")] {
        let state = directory.path().join(last);
        let child = at_work(&state, lifetime);
        let pid = child.pid();
        drop(child);
        assert!(!is_alive(pid) && is_in_state(&state, last), "{lifetime:?}");
    }
}

#[test]
fn a_command_has_the_callers_arguments_variables_and_output() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $WORD"]).env("WORD", "here").stdout(fs::File::create(&state).unwrap());
    let child = Child::run(command, Lifetime::Interrupted).unwrap();
    assert!(child.wait(PATIENCE).unwrap().success());
    assert!(is_in_state(&state, "here\n"));
    assert!(Child::run(Command::new("/nowhere/at-all"), Lifetime::Interrupted).is_err());
}

/// Does nothing without `--exact`, as when all ignored tests run.
fn owns(lifetime: Lifetime) {
    if env::args_os().all(|word| word != "--exact") {
        return;
    }
    let home = env::temp_dir();
    let child = at_work(&home.join("state"), lifetime);
    println!("owns {} {}", child.pid(), home.display());
    thread::sleep(PATIENCE);
}

#[test]
#[ignore = "the process that another test kills"]
fn owns_an_interrupted_command() {
    owns(Lifetime::Interrupted);
}

#[test]
#[ignore = "the process that another test kills"]
fn owns_a_bound_command() {
    owns(Lifetime::Bound);
}

#[test]
fn kill_9_of_the_owner_kills_a_bound_command_and_interrupts_the_other() {
    for (owner, last) in [
        ("interrupted::owns_an_interrupted_command", "finished"),
        ("interrupted::owns_a_bound_command", "at work"),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let state = temporary.path().join("state");
        let mut owner = Owner::start(owner, temporary.path());
        assert!(is_alive(owner.child) && is_in_state(&state, "at work"));
        owner.kill();
        soon("the child ends with its owner", || !is_alive(owner.child));
        assert!(is_in_state(&state, last), "{last}");
    }
}
