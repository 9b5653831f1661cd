//! One child process, and what can be done to it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::keeper::{self, Exit};
use crate::process::threads;
use crate::program::Program;

/// How long a child that is dropped may take over a graceful end.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// How long the kernel may take over one that was killed: a thread that waits for the disk goes when the disk has answered.
const KILL_LIMIT: Duration = Duration::from_secs(60);

/// What becomes of a child when its owner goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Killed with the owner, however the owner ends.
    Bound,
    /// Ended gracefully when it is dropped, because its data is kept; killed if the owner is killed.
    BoundWithData,
    /// Asked to end as Ctrl-C asks, however the owner ends: what it has begun it finishes by itself. Killed if it is dropped
    /// and does not listen.
    Asked,
    /// Stays.
    Detached,
}

/// How a program ended when it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, in time.
    Graceful,
    /// Killed when its time was over.
    Killed,
}

/// A process that runs or has ended; dropping it ends it as its [`Lifetime`] says.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    handle: OwnedFd,
    exit: Arc<Exit>,
    lifetime: Lifetime,
}

impl Child {
    /// Starts a program. It inherits `lock`, if there is one, and nothing else of this process's files.
    ///
    /// # Errors
    /// The program does not run, or its log cannot be opened.
    pub fn spawn(program: &Program, lock: Option<File>, lifetime: Lifetime) -> io::Result<Self> {
        Self::start(program.command()?, lock, lifetime)
    }

    /// Starts a command whose words, environment and output are what the caller made them.
    ///
    /// # Errors
    /// The program does not run.
    pub fn run(command: Command, lifetime: Lifetime) -> io::Result<Self> {
        Self::start(command, None, lifetime)
    }

    fn start(mut command: Command, lock: Option<File>, lifetime: Lifetime) -> io::Result<Self> {
        keeper::bind(&mut command, lock, lifetime);
        let (pid, handle, exit) = keeper::start(command)?;
        Ok(Self { pid, handle, exit, lifetime })
    }

    /// Its process, also when it has ended.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.exit.status()
    }

    /// Waits for its end, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        self.exit.wait(limit)
    }

    /// Kills it as `kill -9` does, and waits until the kernel has taken it away.
    ///
    /// # Errors
    /// It cannot be signalled, or does not die.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)?;
        match self.wait(KILL_LIMIT) {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, self.stuck())),
        }
    }

    /// Stops it where it is, its files and connections open, as a machine that hangs.
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Child::pause`].
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end; true if it did within `limit`. One that was paused goes on, so that it can hear.
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn terminate(&self, limit: Duration) -> io::Result<bool> {
        self.ask(Signal::TERM)?;
        Ok(self.wait(limit).is_some())
    }

    /// Asks it to end as Ctrl-C asks, and does not wait for it. One that was paused goes on, so that it can hear.
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn interrupt(&self) -> io::Result<()> {
        self.ask(Signal::INT)
    }

    /// Asks it to end and kills it after `limit`.
    ///
    /// # Errors
    /// It can be neither asked nor killed.
    pub fn stop(&self, limit: Duration) -> io::Result<Ending> {
        if self.terminate(limit)? {
            return Ok(Ending::Graceful);
        }
        self.kill()?;
        Ok(Ending::Killed)
    }

    /// Lets a detached child go; gives its process.
    pub fn release(self) -> u32 {
        self.pid
    }

    fn stuck(&self) -> String {
        let (pid, limit, threads) = (self.pid, KILL_LIMIT.as_secs(), threads(self.pid).join(", "));
        format!("process {pid} was killed and is still there after {limit} s; its threads: {threads}")
    }

    fn ask(&self, signal: Signal) -> io::Result<()> {
        self.signal(signal)?;
        self.signal(Signal::CONT)
    }

    /// Sends a signal; a child that has ended gets none and that is no error.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Err(error) if error != Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Errors have no receiver here; what survives dies with this process, and the next start sweeps its home.
        let ended = match self.lifetime {
            Lifetime::Detached => Ok(true),
            Lifetime::BoundWithData => self.terminate(DROP_LIMIT),
            Lifetime::Asked => self.interrupt().map(|()| self.wait(DROP_LIMIT).is_some()),
            Lifetime::Bound => Ok(false),
        };
        if !ended.unwrap_or(false) {
            let _ = self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tail;
    use crate::process::is_alive;
    use std::ffi::OsString;
    use std::path::Path;
    use std::thread;

    fn program(directory: &Path, script: &str) -> Program {
        let args = ["-c", script].map(OsString::from).to_vec();
        let log = directory.join("log");
        Program { path: "/bin/sh".into(), args, log, directory: directory.to_owned(), hidden_variables: &[] }
    }

    fn spawn(directory: &Path, script: &str, lifetime: Lifetime) -> Child {
        Child::spawn(&program(directory, script), None, lifetime).unwrap()
    }

    /// Starts a script and waits until it has said `ready`.
    fn spawn_ready(directory: &Path, script: &str, lifetime: Lifetime) -> Child {
        let child = spawn(directory, script, lifetime);
        while !tail(&directory.join("log")).contains("ready") {
            assert_eq!(child.wait(Duration::from_millis(5)), None, "{}", tail(&directory.join("log")));
        }
        child
    }

    #[test]
    fn a_dropped_child_is_gone_when_drop_returns() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Bound);
        let pid = child.pid();
        assert!(is_alive(pid) && child.ended().is_none());
        drop(child);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_child_with_data_is_asked_before_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap 'echo flushed; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        drop(spawn_ready(directory.path(), script, Lifetime::BoundWithData));
        assert_eq!(tail(&directory.path().join("log")), "ready\nflushed");
    }

    #[test]
    fn a_detached_child_stays_when_it_is_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Detached);
        let left = crate::Detached::of(child.release()).unwrap();
        assert!(left.is_running());
        left.end(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_child_lives_on_when_the_thread_that_asked_for_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let child = thread::spawn(move || spawn(&path, "exec sleep 60", Lifetime::Bound)).join().unwrap();
        assert_eq!(child.wait(Duration::from_millis(100)), None);
    }

    #[test]
    fn the_exit_status_and_the_output_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "echo sorry; exit 3", Lifetime::Bound);
        assert_eq!(child.wait(Duration::from_secs(10)).unwrap().code(), Some(3));
        assert_eq!(tail(&directory.path().join("log")), "sorry");
        child.kill().unwrap();
    }

    #[test]
    fn a_child_that_does_not_listen_to_reason_is_reported_and_then_killed() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
        let child = spawn_ready(directory.path(), script, Lifetime::Bound);
        assert!(!child.terminate(Duration::from_millis(100)).unwrap());
        assert_eq!(child.stop(Duration::from_millis(10)).unwrap(), Ending::Killed);
    }

    #[test]
    fn a_child_ends_when_it_is_asked_also_while_it_is_paused() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Bound);
        child.pause().unwrap();
        assert_eq!(child.stop(Duration::from_secs(20)).unwrap(), Ending::Graceful);
        assert!(child.ended().is_some());
    }

    #[test]
    fn a_child_holds_the_lock_that_it_was_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let program = program(directory.path(), "exec sleep 60");
        let child = Child::spawn(&program, Some(lock), Lifetime::Bound).unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(child);
        // Children that other tests are forking right now hold it for a moment; it must come free.
        File::open(&path).unwrap().lock().unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let missing = Program { path: "/nowhere/at-all".into(), ..program(directory.path(), "") };
        assert!(Child::spawn(&missing, None, Lifetime::Bound).is_err());
    }
}
