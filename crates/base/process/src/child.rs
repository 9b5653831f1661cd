//! Runs one child process: starts, pauses, signals, stops and kills it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::error::Error;
use crate::procfs::threads;
use crate::program::{Lifetime, Program};
use crate::supervisor::{self, Exit};

/// The time limit of a graceful end on drop.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for the kernel to remove a killed process: a thread in disk wait ends only when the disk answers.
const KILL_LIMIT: Duration = Duration::from_secs(60);

/// The way in which a program ended after a request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself, within the limit.
    Graceful,
    /// The program was killed after the limit.
    Killed,
}

/// A process that runs or has ended. Dropping it ends the process according to its [`Lifetime`].
#[derive(Debug)]
pub struct Child {
    name: &'static str,
    pid: u32,
    handle: OwnedFd,
    exit: Arc<Exit>,
    lifetime: Lifetime,
}

impl Child {
    /// Starts a program. It inherits only `lock` of this process's files.
    ///
    /// # Errors
    /// [`Error::Spawn`]: the program does not run, or its log cannot be opened.
    pub fn spawn(program: &Program, lock: Option<File>, lifetime: Lifetime) -> Result<Self, Error> {
        let failed = |source| Error::Spawn { program: program.path.clone(), source };
        let command = program.command().map_err(failed)?;
        Self::start(program.name, command, lock, lifetime)
    }

    /// Starts a command with the caller's arguments, environment and output.
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub fn run(command: Command, lifetime: Lifetime) -> Result<Self, Error> {
        Self::start("the program", command, None, lifetime)
    }

    fn start(
        name: &'static str,
        mut command: Command,
        lock: Option<File>,
        lifetime: Lifetime,
    ) -> Result<Self, Error> {
        let program = command.get_program().into();
        supervisor::bind(&mut command, lock, lifetime);
        let started = supervisor::start(command);
        let (pid, handle, exit) = started.map_err(|source| Error::Spawn { program, source })?;
        Ok(Self { name, pid, handle, exit, lifetime })
    }

    /// The process ID of the child, also after its end.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The child's exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.exit.status()
    }

    /// Waits for the child's end, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        self.exit.wait(limit)
    }

    /// Kills the child (`SIGKILL`) and waits until the kernel has removed it.
    ///
    /// # Errors
    /// [`Error::Signal`]: it cannot be signalled, or does not die.
    pub fn kill(&self) -> Result<(), Error> {
        self.signal(Signal::KILL)?;
        match self.wait(KILL_LIMIT) {
            Some(_) => Ok(()),
            None => Err(self.failed(io::Error::new(io::ErrorKind::TimedOut, self.stuck()))),
        }
    }

    /// Pauses the child (`SIGSTOP`), with its files and connections open, like a machine that hangs.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Resumes the child (`SIGCONT`) after [`Child::pause`].
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Asks the child to end (`SIGTERM`); true if it ended within `limit`. A paused child is resumed, to
    /// receive the signal.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn terminate(&self, limit: Duration) -> Result<bool, Error> {
        self.ask(Signal::TERM)?;
        Ok(self.wait(limit).is_some())
    }

    /// Asks the child to end as Ctrl-C does (`SIGINT`), and does not wait. A paused child is resumed, to
    /// receive the signal.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn interrupt(&self) -> Result<(), Error> {
        self.ask(Signal::INT)
    }

    /// Asks the child to end and kills it after `limit`.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn stop(&self, limit: Duration) -> Result<Ending, Error> {
        if self.terminate(limit)? {
            return Ok(Ending::Graceful);
        }
        self.kill()?;
        Ok(Ending::Killed)
    }

    /// Releases a detached child; returns its process ID.
    pub fn release(self) -> u32 {
        self.pid
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Signal { name: self.name, pid: self.pid, source }
    }

    fn stuck(&self) -> String {
        let (pid, limit, threads) = (self.pid, KILL_LIMIT.as_secs(), threads(self.pid).join(", "));
        format!("process {pid} was killed and is still there after {limit} s; its threads: {threads}")
    }

    fn ask(&self, signal: Signal) -> Result<(), Error> {
        self.signal(signal)?;
        self.signal(Signal::CONT)
    }

    /// Sends a signal. A child that has ended gets none, which is not an error.
    fn signal(&self, signal: Signal) -> Result<(), Error> {
        match pidfd_send_signal(&self.handle, signal) {
            Err(error) if error != Errno::SRCH => Err(self.failed(error.into())),
            _ => Ok(()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A drop cannot return an error. A survivor dies with this process, and the next start sweeps its home.
        let ended = match self.lifetime {
            Lifetime::Detached => Ok(true),
            Lifetime::BoundWithData => self.terminate(DROP_LIMIT),
            Lifetime::Interrupted => self.interrupt().map(|()| self.wait(DROP_LIMIT).is_some()),
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
    use crate::procfs::is_alive;
    use std::ffi::OsString;
    use std::path::Path;
    use std::thread;

    fn program(directory: &Path, script: &str) -> Program {
        let args = ["-c", script].map(OsString::from).to_vec();
        let log = directory.join("log");
        let (path, directory) = ("/bin/sh".into(), directory.to_owned());
        Program { name: "the script", path, args, log, directory, hidden_variables: &[] }
    }

    fn spawn(directory: &Path, script: &str, lifetime: Lifetime) -> Child {
        Child::spawn(&program(directory, script), None, lifetime).unwrap()
    }

    /// Starts a script and waits until it has printed `ready`.
    fn spawn_ready(directory: &Path, script: &str, lifetime: Lifetime) -> Child {
        let child = spawn(directory, script, lifetime);
        while !tail(&directory.join("log")).contains("ready") {
            assert_eq!(child.wait(Duration::from_millis(5)), None, "{}", tail(&directory.join("log")));
        }
        child
    }

    #[test]
    fn a_dropped_child_has_ended_when_drop_returns() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Bound);
        let pid = child.pid();
        assert!(is_alive(pid) && child.ended().is_none());
        drop(child);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_dropped_child_with_data_ends_gracefully() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap 'echo flushed; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        drop(spawn_ready(directory.path(), script, Lifetime::BoundWithData));
        assert_eq!(tail(&directory.path().join("log")), "ready\nflushed");
    }

    #[test]
    fn a_detached_child_survives_its_release() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Detached);
        let left = crate::Detached::of(child.release()).unwrap();
        assert!(left.is_running());
        left.end(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_child_outlives_the_thread_that_started_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let child = thread::spawn(move || spawn(&path, "exec sleep 60", Lifetime::Bound)).join().unwrap();
        assert_eq!(child.wait(Duration::from_millis(100)), None);
    }

    #[test]
    fn the_exit_status_and_the_output_are_available() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "echo sorry; exit 3", Lifetime::Bound);
        assert_eq!(child.wait(Duration::from_secs(10)).unwrap().code(), Some(3));
        assert_eq!(tail(&directory.path().join("log")), "sorry");
        child.kill().unwrap();
    }

    #[test]
    fn a_child_that_ignores_the_request_to_end_is_killed_after_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
        let child = spawn_ready(directory.path(), script, Lifetime::Bound);
        assert!(!child.terminate(Duration::from_millis(100)).unwrap());
        assert_eq!(child.stop(Duration::from_millis(10)).unwrap(), Ending::Killed);
    }

    #[test]
    fn a_paused_child_ends_when_requested() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Bound);
        child.pause().unwrap();
        assert_eq!(child.stop(Duration::from_secs(20)).unwrap(), Ending::Graceful);
        assert!(child.ended().is_some());
    }

    #[test]
    fn a_child_inherits_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let program = program(directory.path(), "exec sleep 60");
        let child = Child::spawn(&program, Some(lock), Lifetime::Bound).unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(child);
        // Children that other tests are forking may share the lock briefly; it must become free.
        File::open(&path).unwrap().lock().unwrap();
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let missing = Program { path: "/nowhere/at-all".into(), ..program(directory.path(), "") };
        assert!(Child::spawn(&missing, None, Lifetime::Bound).is_err());
    }
}
