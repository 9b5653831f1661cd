//! Commands whose end is asked for as Ctrl-C asks finish what they have begun, also when their owner is killed; commands that are
//! bound to their owner die with it.

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

/// Where a program that is to be asked says how it is.
const SAID: &str = "PLIMSOLL_ASKED_SAID";
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens by itself, whatever is done with SIGINT where these tests run.
#[test]
#[ignore = "the program that other tests ask"]
fn works_until_it_is_asked() {
    let Some(said) = env::var_os(SAID) else { return };
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&asked)).unwrap();
    fs::write(&said, "at work").unwrap();
    soon("somebody asks", || asked.load(Ordering::Relaxed));
    fs::write(&said, "finished").unwrap();
}

fn work(said: &Path) -> Command {
    let mut command = again("asked::works_until_it_is_asked");
    command.env(SAID, said).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn says(said: &Path, what: &str) -> bool {
    fs::read_to_string(said).is_ok_and(|text| text == what)
}

/// Starts one that is at work.
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
fn what_is_to_be_asked_is_asked_when_it_is_dropped_and_what_is_bound_is_not() {
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
fn a_command_has_the_words_the_variables_and_the_output_that_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $WORD"]).env("WORD", "here").stdout(fs::File::create(&said).unwrap());
    let child = Child::run(command, Lifetime::Asked).unwrap();
    assert!(child.wait(PATIENCE).unwrap().success());
    assert!(says(&said, "here\n"));
    assert!(Child::run(Command::new("/nowhere/at-all"), Lifetime::Asked).is_err());
}

/// Nothing where nobody wants to kill it: then all that is ignored is run.
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
fn owns_one_that_is_asked() {
    owns(Lifetime::Asked);
}

#[test]
#[ignore = "the process that another test kills"]
fn owns_one_that_is_bound() {
    owns(Lifetime::Bound);
}

#[test]
fn kill_9_of_the_owner_asks_what_is_to_be_asked_and_kills_what_is_bound() {
    for (owner, last) in
        [("asked::owns_one_that_is_asked", "finished"), ("asked::owns_one_that_is_bound", "at work")]
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
