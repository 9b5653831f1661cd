//! Finds, checks and stops a detached process; it may not be a child of this process.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::child::Ending;
use crate::procfs;

/// The time limit for the kernel to remove a killed process.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Identifies one process permanently: IDs are reused, this pair is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The process ID.
    pub pid: u32,
    /// The start of the process, in clock ticks since boot.
    pub started_ticks: u64,
}

impl Detached {
    /// The current process of this ID, if any.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started_ticks: procfs::started(pid)? })
    }

    /// Whether the process still runs.
    pub fn is_running(&self) -> bool {
        procfs::is_alive(self.pid) && procfs::started(self.pid) == Some(self.started_ticks)
    }

    /// Asks the process to end and kills it after `limit`. A process that has ended already counts as
    /// graceful.
    ///
    /// # Errors
    /// The process belongs to another user, or does not die.
    pub fn end(&self, limit: Duration) -> io::Result<Ending> {
        let Ok(handle) = procfs::handle(self.pid) else { return Ok(Ending::Graceful) };
        // The check follows the creation of the handle, so the handle cannot refer to another process.
        if !self.is_running() {
            return Ok(Ending::Graceful);
        }
        pidfd_send_signal(&handle, Signal::TERM)?;
        if has_ended(&handle, limit)? {
            return Ok(Ending::Graceful);
        }
        pidfd_send_signal(&handle, Signal::KILL)?;
        match has_ended(&handle, KILL_LIMIT)? {
            true => Ok(Ending::Killed),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits for the end of a process that may not be our child: its handle becomes readable then.
fn has_ended(handle: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut handles = [PollFd::new(handle, PollFlags::IN)];
    loop {
        match poll(&mut handles, Some(&limit)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_running_process_is_found_and_ended() {
        let mut process = sleeper();
        let found = Detached::of(process.id()).unwrap();
        assert!(found.is_running());
        assert_eq!(found.end(Duration::from_secs(20)).unwrap(), Ending::Graceful);
        process.wait().unwrap();
        assert!(!found.is_running());
        assert_eq!(found.end(Duration::ZERO).unwrap(), Ending::Graceful);
        assert_eq!(Detached::of(process.id()), None);
    }

    #[test]
    fn a_process_that_ignores_the_signal_is_killed() {
        let mut deaf = Command::new("/bin/sh");
        deaf.args(["-c", "trap '' TERM; echo deaf; while :; do sleep 0.01; done"]).stdout(Stdio::piped());
        let mut process = deaf.spawn().unwrap();
        let mut said = [0; 4];
        io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut said).unwrap();
        let found = Detached::of(process.id()).unwrap();
        assert_eq!(found.end(Duration::from_millis(50)).unwrap(), Ending::Killed);
        process.wait().unwrap();
    }

    #[test]
    fn another_process_with_the_same_id_is_never_signalled() {
        let mut process = sleeper();
        let found = Detached::of(process.id()).unwrap();
        let old = Detached { started_ticks: found.started_ticks - 1, ..found };
        assert!(!old.is_running());
        assert_eq!(old.end(Duration::ZERO).unwrap(), Ending::Graceful);
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
