//! Tests that commands with the lifetime `Asked` finish their work after SIGINT, also when their owner is killed, and that
//! bound commands die with their owner.

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
const SAID: &str = "PLIMSOLL_ASKED_SAID";
const PATIENCE: Duration = Duration::from_secs(60);

/// Handles SIGINT itself, independently of the test runner.
#[test]
#[ignore = "the program that other tests interrupt"]
fn works_until_it_is_interrupted() {
    let Some(said) = env::var_os(SAID) else { return };
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&asked)).unwrap();
    fs::write(&said, "at work").unwrap();
    soon("the program receives SIGINT", || asked.load(Ordering::Relaxed));
    fs::write(&said, "finished").unwrap();
}

fn work(said: &Path) -> Command {
    let mut command = again("asked::works_until_it_is_interrupted");
    command.env(SAID, said).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn says(said: &Path, what: &str) -> bool {
    fs::read_to_string(said).is_ok_and(|text| text == what)
}

/// Starts a program and waits until it works.
fn at_work(said: &Path, lifetime: Lifetime) -> Child {
    let child = Child::run(work(said), lifetime).unwrap();
    soon("it is at work", || says(said, "at work"));
    child
}

#[test]
fn a_command_that_is_interrupted_finishes_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let child = at_work(&said, Lifetime::Bound);
    assert_eq!(child.ended(), None);
    child.interrupt().unwrap();
    assert!(child.wait(PATIENCE).unwrap().success());
    assert!(says(&said, "finished"));
    child.interrupt().unwrap();
}

#[test]
fn a_dropped_command_is_interrupted_if_its_lifetime_is_asked_and_killed_if_bound() {
    let directory = tempfile::tempdir().unwrap();
    for (lifetime, last) in [(Lifetime::Asked, "finished"), (Lifetime::Bound, "at work")] {
        let said = directory.path().join(last);
        let child = at_work(&said, lifetime);
        let pid = child.pid();
        drop(child);
        assert!(!is_alive(pid) && says(&said, last), "{lifetime:?}");
    }
}

#[test]
fn a_command_has_the_callers_arguments_variables_and_output() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $WORD"]).env("WORD", "here").stdout(fs::File::create(&said).unwrap());
    let child = Child::run(command, Lifetime::Asked).unwrap();
    assert!(child.wait(PATIENCE).unwrap().success());
    assert!(says(&said, "here\n"));
    assert!(Child::run(Command::new("/nowhere/at-all"), Lifetime::Asked).is_err());
}

/// Does nothing without `--exact`, as when all ignored tests run.
fn owns(lifetime: Lifetime) {
    if env::args_os().all(|word| word != "--exact") {
        return;
    }
    let home = env::temp_dir();
    let child = at_work(&home.join("said"), lifetime);
    println!("owns {} {}", child.pid(), home.display());
    thread::sleep(PATIENCE);
}

#[test]
#[ignore = "the process that another test kills"]
fn owns_an_asked_command() {
    owns(Lifetime::Asked);
}

#[test]
#[ignore = "the process that another test kills"]
fn owns_a_bound_command() {
    owns(Lifetime::Bound);
}

#[test]
fn kill_9_of_the_owner_interrupts_asked_commands_and_kills_bound_ones() {
    for (owner, last) in
        [("asked::owns_an_asked_command", "finished"), ("asked::owns_a_bound_command", "at work")]
    {
        let temporary = tempfile::tempdir().unwrap();
        let said = temporary.path().join("said");
        let mut owner = Owner::start(owner, temporary.path());
        assert!(is_alive(owner.child) && says(&said, "at work"));
        owner.kill();
        soon("the child ends with its owner", || !is_alive(owner.child));
        assert!(says(&said, last), "{last}");
    }
}
