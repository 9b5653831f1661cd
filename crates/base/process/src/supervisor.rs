//! Starts a child on a thread that lives as long as the child, and collects its exit status.
//!
//! The kernel sends the parent-death signal when the *thread* that forked ends, not the process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};

use crate::procfs::handle;
use crate::program::Lifetime;

/// The exit status of a child, once it has ended.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Exit {
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

type Started = io::Result<(u32, OwnedFd)>;

/// Starts a command on a supervisor thread; returns its process ID, a handle and its exit.
pub(crate) fn start(command: Command) -> io::Result<(u32, OwnedFd, Arc<Exit>)> {
    let exit = Arc::new(Exit::default());
    let (started, pid) = sync_channel(1);
    let shared = Arc::clone(&exit);
    thread::Builder::new()
        .name("plimsoll-supervisor".to_owned())
        .spawn(move || supervise(command, &started, &shared))?;
    let (pid, handle) = pid.recv().map_err(io::Error::other)??;
    Ok((pid, handle, exit))
}

/// Makes the child of a command inherit `lock`, and end according to `lifetime`.
pub(crate) fn bind(command: &mut Command, lock: Option<File>, lifetime: Lifetime) {
    let owner = getpid();
    let prepare = move || prepare(lock.as_ref(), lifetime, owner);
    // SAFETY: between fork and exec only calls that are safe after a signal are allowed. `prepare` makes four system
    // calls, allocates nothing, takes no lock and does not unwind.
    unsafe { command.pre_exec(prepare) };
}

/// Runs in the child before exec. Opens a new session, so that Ctrl-C in the terminal does not reach it; keeps the lock open
/// over exec; requests a signal for the owner's death.
fn prepare(lock: Option<&File>, lifetime: Lifetime, owner: Pid) -> io::Result<()> {
    setsid()?;
    if let Some(lock) = lock {
        fcntl_setfd(lock, FdFlags::empty())?;
    }
    let signal = match lifetime {
        Lifetime::Bound | Lifetime::BoundWithData => Signal::KILL,
        Lifetime::Interrupted => Signal::INT,
        Lifetime::Detached => return Ok(()),
    };
    set_parent_process_death_signal(Some(signal))?;
    // The owner may have died before the line above.
    if getppid() == Some(owner) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

fn supervise(mut command: Command, started: &SyncSender<Started>, exit: &Exit) {
    let spawned = command.spawn().and_then(with_handle);
    // The command holds a second handle of the lock, which only the child may keep.
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

fn with_handle(mut child: Child) -> io::Result<(OwnedFd, Child)> {
    match handle(child.id()) {
        Ok(handle) => Ok((handle, child)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}
