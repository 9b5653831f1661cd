//! Tests that a killed owner's child dies too, and that the next start removes the leftovers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_process::home::{Home, Storage};
use plimsoll_process::procfs::is_alive;
use plimsoll_process::{Child, Lifetime, Program};

const PREFIX: &str = "plimsoll-owned-";

/// A process that owns a child.
pub(crate) struct Owner {
    process: Process,
    pub(crate) child: u32,
    /// The child's own directory.
    home: PathBuf,
}

/// Runs this test program again, with one ignored test as its task.
pub(crate) fn again(what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", what]);
    command
}

impl Owner {
    /// Starts an owner that prints `owns PROCESS HOME`, with a directory for temporary files.
    pub(crate) fn start(what: &str, temporary: &Path) -> Self {
        let mut command = again(what);
        let mut process = command.env("TMPDIR", temporary).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find_map(|line| Some(line.split_once("owns ")?.1.to_owned())).unwrap();
        let (pid, home) = said.split_once(' ').unwrap();
        Self { process, child: pid.parse().unwrap(), home: home.into() }
    }

    /// Kills the owner as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

const OWNER: &str = "owner::owns_a_child_until_it_is_killed";

#[test]
#[ignore = "the process that another test kills"]
fn owns_a_child_until_it_is_killed() {
    let home = Home::open(&Storage::Temporary, PREFIX, &std::env::temp_dir()).unwrap();
    let program = Program {
        name: "the owner",
        path: "/bin/sh".into(),
        args: ["-c", "exec sleep 120"].map(Into::into).to_vec(),
        log: home.path().join("log"),
        directory: home.path().to_owned(),
        hidden_variables: &[],
    };
    let child = Child::spawn(&program, Some(home.lock().unwrap()), Lifetime::BoundWithData).unwrap();
    println!("owns {} {}", child.pid(), home.path().display());
    thread::sleep(Duration::from_secs(120));
}

#[test]
fn kill_9_of_the_owner_ends_the_child_and_the_next_start_sweeps_its_home() {
    let temporary = tempfile::tempdir().unwrap();
    let mut first = Owner::start(OWNER, temporary.path());
    assert!(is_alive(first.child));
    first.kill();
    soon("the child dies with its owner", || !is_alive(first.child));
    assert!(first.home.exists(), "the killed owner could not remove its home");
    let mut second = Owner::start(OWNER, temporary.path());
    assert!(!first.home.exists() && second.home.exists());
    second.kill();
    soon("the child dies with its owner", || !is_alive(second.child));
}

pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within 20 s");
}
