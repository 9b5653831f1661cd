//! Starts a child and waits until it is ready, or reports the reason of the failure.

use std::fs::File;
use std::time::Duration;

use crate::child::Child;
use crate::error::Error;
use crate::log::{Follow, tail};
use crate::program::{Lifetime, Program};

/// The time limit of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The limit of the whole start, with the recovery after a kill.
    pub limit: Duration,
    /// The pause between two checks.
    pub poll_every: Duration,
}

/// A program to start, with its limits.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// The lock of its home, which it inherits.
    pub lock: Option<File>,
    /// The child's lifetime.
    pub lifetime: Lifetime,
    /// The time limit.
    pub deadline: Deadline,
    /// A clock that never runs backwards, in nanoseconds.
    pub now_ns: fn() -> u64,
}

impl Launch<'_> {
    /// Starts the program and calls `look` until `look` returns a result. `look` gets the whole lines that
    /// were added to the log since the last call, perhaps none; never lines of an earlier start.
    ///
    /// # Errors
    /// [`Error`], with the last lines of the log.
    pub fn until<T>(self, look: &mut dyn FnMut(&str) -> Option<T>) -> Result<(Child, T), Error> {
        let mut log = Follow::from_end(&self.program.log);
        let child = Child::spawn(self.program, self.lock, self.lifetime)?;
        let (start_ns, limit_ns) = ((self.now_ns)(), self.deadline.limit.as_nanos());
        loop {
            // This check comes first: another program could answer in place of an ended child.
            if let Some(status) = child.ended() {
                let tail = tail(&self.program.log);
                return Err(Error::Ended { name: self.program.name, status, tail });
            }
            if let Some(ready) = look(&log.fresh()) {
                return Ok((child, ready));
            }
            if u128::from((self.now_ns)().saturating_sub(start_ns)) >= limit_ns {
                // The error to report is the exceeded limit, not a failed kill.
                let _ = child.kill();
                let (name, seconds) = (self.program.name, self.deadline.limit.as_secs());
                return Err(Error::NotReady { name, seconds, tail: tail(&self.program.log) });
            }
            child.wait(self.deadline.poll_every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::is_alive;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn program(directory: &Path, script: &str) -> Program {
        Program {
            name: "the script",
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            log: directory.join("log"),
            directory: directory.to_owned(),
            hidden_variables: &[],
        }
    }

    fn launch(program: &Program, now_ns: fn() -> u64) -> Launch<'_> {
        let deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
        Launch { program, lock: None, lifetime: Lifetime::Bound, deadline, now_ns }
    }

    fn port(lines: &str) -> Option<u16> {
        lines.lines().find_map(|line| line.strip_prefix("listening on ")?.parse().ok())
    }

    #[test]
    fn a_child_is_ready_when_its_log_contains_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo warming up; printf listening; sleep 0.1; echo ' on 4242'; exec sleep 60";
        let program = program(directory.path(), script);
        let (child, port) = launch(&program, || 0).until(&mut port).unwrap();
        assert_eq!((port, child.ended()), (4242, None));
    }

    #[test]
    fn the_log_of_an_earlier_start_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("log"), "listening on 1\n").unwrap();
        let program = program(directory.path(), "echo listening on 2; exec sleep 60");
        assert_eq!(launch(&program, || 0).until(&mut port).unwrap().1, 2);
    }

    #[test]
    fn a_child_that_ends_at_once_is_reported_with_its_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "echo disk full >&2; exit 7");
        let text = launch(&program, || 0).until(&mut port).unwrap_err().to_string();
        assert!(text.contains("disk full") && text.contains('7'), "{text}");
    }

    #[test]
    fn an_ended_child_is_never_ready() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "exit 1");
        let mut launch = launch(&program, || 0);
        // The wait between two checks ends with the child.
        launch.deadline.poll_every = Duration::from_secs(60);
        let mut looks = 0;
        let ended = launch.until(&mut |_| {
            looks += 1;
            (looks > 1).then_some(())
        });
        assert!(matches!(ended, Err(Error::Ended { .. })));
    }

    #[test]
    fn a_child_that_is_late_is_killed() {
        static SECONDS: AtomicU64 = AtomicU64::new(0);
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "echo $$; exec sleep 600");
        let mut pid = None;
        let late = launch(&program, || SECONDS.load(Ordering::Relaxed) * 1_000_000_000).until(&mut |lines| {
            pid = pid.or_else(|| lines.trim().parse().ok());
            // The clock stands still until the child has printed its process ID.
            SECONDS.store(if pid.is_some() { 60 } else { 0 }, Ordering::Relaxed);
            None::<()>
        });
        assert!(matches!(late, Err(Error::NotReady { seconds: 60, .. })), "{late:?}");
        assert!(!is_alive(pid.unwrap()));
    }
}
