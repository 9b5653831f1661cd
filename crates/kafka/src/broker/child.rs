//! One child process, watched by a thread of its own, that does not outlive this process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
    setsid,
};

/// How long the kernel may take over a process that was killed.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A process that runs or has ended; dropping it kills it.
#[derive(Debug)]
pub(super) struct Child {
    pid: u32,
    handle: OwnedFd,
    exit: Arc<Exit>,
}

#[derive(Debug, Default)]
struct Exit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

type Started = io::Result<(u32, OwnedFd)>;

impl Child {
    /// Starts a command.
    ///
    /// The kernel sends the signal of a parent's death when the *thread* that forked ends, so the fork happens on a
    /// keeper thread that stays until the child has ended and then takes its exit status.
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        let owner = getpid();
        // SAFETY: between fork and exec only calls that are safe after a signal are allowed. `prepare` makes three
        // system calls, allocates nothing, takes no lock and does not unwind.
        unsafe { command.pre_exec(move || prepare(owner)) };
        let exit = Arc::new(Exit::default());
        let (started, pid) = sync_channel(1);
        let keeper = Arc::clone(&exit);
        thread::Builder::new()
            .name("plimsoll-keeper".to_owned())
            .spawn(move || keep(command, &started, &keeper))?;
        let (pid, handle) = pid.recv().map_err(io::Error::other)??;
        Ok(Self { pid, handle, exit })
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// The exit status, if it has ended.
    pub(super) fn ended(&self) -> Option<ExitStatus> {
        *self.exit.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.exit.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.exit.changed.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends a signal; a child that has ended gets none and that is no error.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Err(error) if error != Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Kills it and waits until the kernel has taken it away.
    pub(super) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)?;
        match self.wait(KILL_LIMIT) {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the process does not die")),
        }
    }

    /// Asks it to end; true if it did within `limit`. One that was paused goes on, so that it can hear.
    pub(super) fn terminate(&self, limit: Duration) -> io::Result<bool> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        Ok(self.wait(limit).is_some())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Errors have no receiver here; what survives dies with this process.
        let _ = self.kill();
    }
}

/// In the child, before it becomes the program: a session of its own, so that Ctrl-C in the terminal does not reach it;
/// the owner's death is its own.
fn prepare(owner: Pid) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The owner may have died before the line above.
    if getppid() == Some(owner) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

fn keep(mut command: Command, started: &SyncSender<Started>, exit: &Exit) {
    let spawned = command.spawn().and_then(with_handle);
    // The command holds the log's file; the child has its own.
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

/// The child with a handle that names it for good, though its id may be used again.
fn with_handle(mut child: process::Child) -> io::Result<(OwnedFd, process::Child)> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
    match pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Ok(handle) => Ok((handle, child)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn spawn(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Child::spawn(command).unwrap()
    }

    fn is_alive(pid: u32) -> bool {
        Path::new("/proc").join(pid.to_string()).exists()
    }

    #[test]
    fn a_dropped_child_is_gone_when_drop_returns() {
        let child = spawn("exec sleep 60");
        let pid = child.pid();
        assert!(is_alive(pid) && child.ended().is_none());
        drop(child);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_child_lives_on_when_the_thread_that_asked_for_it_has_ended() {
        let child = thread::spawn(|| spawn("exec sleep 60")).join().unwrap();
        assert_eq!(child.wait(Duration::from_millis(100)), None);
    }

    #[test]
    fn a_child_ends_when_it_is_asked_also_while_it_is_paused() {
        let child = spawn("exec sleep 60");
        child.signal(Signal::STOP).unwrap();
        assert!(child.terminate(Duration::from_secs(20)).unwrap());
        assert!(child.ended().is_some());
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(Child::spawn(Command::new("/nowhere/at-all")).is_err());
    }
}
