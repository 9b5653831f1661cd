//! One child process, watched by a thread of its own, that does not outlive this process unless it is meant to.

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
    setsid,
};

/// How long a child that is dropped may take over a graceful end.
const DROP_LIMIT: Duration = Duration::from_secs(10);

/// What becomes of a child when its owner goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Killed with the owner, however the owner ends.
    Bound,
    /// Ended gracefully when it is dropped, because its data is kept; killed if the owner is killed.
    BoundWithData,
    /// Stays.
    Detached,
}

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Where its output is appended.
    pub(crate) log: PathBuf,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// Variables that begin so are kept from it: it would take them for options.
    pub(crate) hidden_variables: Option<&'static str>,
}

/// A process that runs or has ended; dropping it ends it as its [`Lifetime`] says.
#[derive(Debug)]
pub(crate) struct Child {
    pid: u32,
    handle: OwnedFd,
    exit: Arc<Exit>,
    lifetime: Lifetime,
}

#[derive(Debug, Default)]
struct Exit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

type Started = io::Result<(u32, OwnedFd)>;

impl Child {
    /// Starts a program. It inherits `lock` and nothing else of this process's files.
    ///
    /// The kernel sends the signal of a parent's death when the *thread* that forked ends, so the fork happens on a
    /// keeper thread that stays until the child has ended and then takes its exit status.
    pub(crate) fn spawn(program: &Program, lock: File, lifetime: Lifetime) -> io::Result<Self> {
        let command = command(program, lock, lifetime)?;
        let exit = Arc::new(Exit::default());
        let (started, pid) = sync_channel(1);
        let keeper = Arc::clone(&exit);
        thread::Builder::new()
            .name("plimsoll-keeper".to_owned())
            .spawn(move || keep(command, &started, &keeper))?;
        let (pid, handle) = pid.recv().map_err(io::Error::other)??;
        Ok(Child { pid, handle, exit, lifetime })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit status, if it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        *self.exit.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.exit.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.exit.changed.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends a signal; a child that has ended gets none and that is no error.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Err(error) if error != Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Kills it and waits until the kernel has taken it away.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)?;
        match self.wait(DROP_LIMIT) {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the process does not die")),
        }
    }

    /// Asks it to end; true if it did within `limit`. One that was paused goes on, so that it can hear.
    pub(crate) fn terminate(&self, limit: Duration) -> io::Result<bool> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        Ok(self.wait(limit).is_some())
    }

    /// Lets a detached child go.
    pub(crate) fn release(self) -> u32 {
        self.pid
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Errors have no receiver here; what survives dies with this process, and the next start sweeps its home.
        let ended = match self.lifetime {
            Lifetime::Detached => Ok(true),
            Lifetime::BoundWithData => self.terminate(DROP_LIMIT),
            Lifetime::Bound => Ok(false),
        };
        if !ended.unwrap_or(false) {
            let _ = self.kill();
        }
    }
}

fn command(program: &Program, lock: File, lifetime: Lifetime) -> io::Result<Command> {
    let log = OpenOptions::new().create(true).append(true).open(&program.log)?;
    let mut command = Command::new(&program.path);
    command.args(&program.args).current_dir(&program.directory);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    if let Some(prefix) = program.hidden_variables {
        env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(prefix.as_bytes())).for_each(
            |(name, _)| {
                command.env_remove(name);
            },
        );
    }
    let owner = getpid();
    let prepare = move || prepare(&lock, lifetime, owner);
    // SAFETY: between fork and exec only calls that are safe after a signal are allowed. `prepare` makes four system
    // calls, allocates nothing, takes no lock and does not unwind.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}

/// In the child, before it becomes the program: a session of its own, so that Ctrl-C in the terminal does not reach it;
/// the lock stays open over exec; the owner's death is its own.
fn prepare(lock: &File, lifetime: Lifetime, owner: Pid) -> io::Result<()> {
    setsid()?;
    fcntl_setfd(lock, FdFlags::empty())?;
    if lifetime == Lifetime::Detached {
        return Ok(());
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The owner may have died before the line above.
    if getppid() == Some(owner) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

fn keep(mut command: Command, started: &SyncSender<Started>, exit: &Exit) {
    let spawned = command.spawn().and_then(with_handle);
    // The command holds the lock's second handle; the child has its own.
    drop(command);
    let (handle, mut child) = match spawned {
        Ok(spawned) => spawned,
        Err(error) => return started.send(Err(error)).unwrap_or_default(),
    };
    if started.send(Ok((child.id(), handle))).is_err() {
        let _ = child.kill();
    }
    let status = child.wait().unwrap_or_default();
    *exit.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    exit.changed.notify_all();
}

fn with_handle(mut child: process::Child) -> io::Result<(OwnedFd, process::Child)> {
    match open(child.id()) {
        Ok(handle) => Ok((handle, child)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

/// A handle that names this process for good, though its id may be used again.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// The last lines of a log, for an error.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 15;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8 * 1024)..]);
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => "(it printed nothing)".to_owned(),
        count => lines[count.saturating_sub(LINES)..].join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    fn program(directory: &Path, script: &str) -> Program {
        let args = ["-c", script].map(OsString::from).to_vec();
        let log = directory.join("log");
        Program { path: "/bin/sh".into(), args, log, directory: directory.to_owned(), hidden_variables: None }
    }

    fn spawn(directory: &Path, script: &str, lifetime: Lifetime) -> Child {
        let lock = File::create(directory.join("lock")).unwrap();
        Child::spawn(&program(directory, script), lock, lifetime).unwrap()
    }

    #[test]
    fn a_dropped_child_is_gone_when_drop_returns() {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(directory.path(), "exec sleep 60", Lifetime::Bound);
        let pid = child.pid();
        assert!(process::is_alive(pid));
        drop(child);
        assert!(!process::is_alive(pid));
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
    fn a_child_that_does_not_listen_to_reason_is_reported_as_not_ended() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo deaf; while :; do sleep 0.01; done";
        let child = spawn(directory.path(), script, Lifetime::Bound);
        while !tail(&directory.path().join("log")).contains("deaf") {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!child.terminate(Duration::from_millis(100)).unwrap());
    }

    #[test]
    fn a_child_holds_the_lock_that_it_was_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let child = Child::spawn(&program(directory.path(), "exec sleep 60"), lock, Lifetime::Bound).unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(child);
        // Children that other tests are forking right now hold it for a moment; it must come free.
        File::open(&path).unwrap().lock().unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let missing = Program { path: "/nowhere/at-all".into(), ..program(directory.path(), "") };
        let lock = File::create(directory.path().join("lock")).unwrap();
        assert!(Child::spawn(&missing, lock, Lifetime::Bound).is_err());
    }
}
