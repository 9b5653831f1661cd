//! Starts a child and waits until it is ready, or says why it is not.

use std::fs::File;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::child::{Child, Lifetime};
use crate::log::{self, Follow};
use crate::program::Program;

/// How long a start may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// In all; recovery after a kill is part of it.
    pub limit: Duration,
    /// From one look to the next.
    pub every: Duration,
}

/// A start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What is started.
    pub program: &'a Program,
    /// What it inherits: the lock of its home.
    pub lock: Option<File>,
    /// What becomes of it when its owner goes.
    pub lifetime: Lifetime,
    /// How long it may take.
    pub patience: Patience,
    /// A clock that never runs backwards, in nanoseconds.
    pub now_ns: fn() -> u64,
}

/// A child did not become ready. It does not run any more.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program does not run.
    #[error("the program cannot be run ({0}): is it installed?")]
    Spawn(#[from] io::Error),
    /// It ended while it should have started.
    #[error("the program ended while it started ({status}); the last lines of its log say why:\n{tail}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The log's last lines.
        tail: String,
    },
    /// It was not ready in time, and was killed.
    #[error("the program was not ready within {seconds} s; the last lines of its log:\n{tail}")]
    Late {
        /// How long it was given.
        seconds: u64,
        /// The log's last lines.
        tail: String,
    },
}

impl Launch<'_> {
    /// Starts it and looks at it until `look` finds it ready. `look` is given the whole lines that the log has gained since the
    /// last look, or nothing; lines of an earlier start are not among them.
    ///
    /// # Errors
    /// [`LaunchError`], with the last lines of the log.
    pub fn until<T>(self, look: &mut dyn FnMut(&str) -> Option<T>) -> Result<(Child, T), LaunchError> {
        let mut said = Follow::from_end(&self.program.log);
        let child = Child::spawn(self.program, self.lock, self.lifetime)?;
        let (start_ns, limit_ns) = ((self.now_ns)(), self.patience.limit.as_nanos());
        loop {
            // In this order, what answers in the place of a child that has ended is not taken for it.
            if let Some(status) = child.ended() {
                return Err(LaunchError::Ended { status, tail: log::tail(&self.program.log) });
            }
            if let Some(ready) = look(&said.fresh()) {
                return Ok((child, ready));
            }
            if u128::from((self.now_ns)().saturating_sub(start_ns)) >= limit_ns {
                // It is late already; that is the error worth telling.
                let _ = child.kill();
                let seconds = self.patience.limit.as_secs();
                return Err(LaunchError::Late { seconds, tail: log::tail(&self.program.log) });
            }
            child.wait(self.patience.every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::is_alive;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn program(directory: &Path, script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            log: directory.join("log"),
            directory: directory.to_owned(),
            hidden_variables: &[],
        }
    }

    fn launch(program: &Program, now_ns: fn() -> u64) -> Launch<'_> {
        let patience = Patience { limit: Duration::from_secs(60), every: Duration::from_millis(5) };
        Launch { program, lock: None, lifetime: Lifetime::Bound, patience, now_ns }
    }

    fn port(lines: &str) -> Option<u16> {
        lines.lines().find_map(|line| line.strip_prefix("listening on ")?.parse().ok())
    }

    #[test]
    fn a_child_is_ready_when_its_log_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo warming up; printf listening; sleep 0.1; echo ' on 4242'; exec sleep 60";
        let program = program(directory.path(), script);
        let (child, port) = launch(&program, || 0).until(&mut port).unwrap();
        assert_eq!((port, child.ended()), (4242, None));
    }

    #[test]
    fn what_an_earlier_start_said_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("log"), "listening on 1\n").unwrap();
        let program = program(directory.path(), "echo listening on 2; exec sleep 60");
        assert_eq!(launch(&program, || 0).until(&mut port).unwrap().1, 2);
    }

    #[test]
    fn a_child_that_ends_at_once_is_reported_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "echo disk full >&2; exit 7");
        let text = launch(&program, || 0).until(&mut port).unwrap_err().to_string();
        assert!(text.contains("disk full") && text.contains('7'), "{text}");
    }

    #[test]
    fn a_child_that_has_ended_is_not_ready_whatever_answers() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "exit 1");
        let mut launch = launch(&program, || 0);
        // The wait between two looks ends with the child.
        launch.patience.every = Duration::from_secs(60);
        let mut looks = 0;
        let ended = launch.until(&mut |_| {
            looks += 1;
            (looks > 1).then_some(())
        });
        assert!(matches!(ended, Err(LaunchError::Ended { .. })));
    }

    #[test]
    fn a_child_that_is_late_is_killed() {
        static SECONDS: AtomicU64 = AtomicU64::new(0);
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "echo $$; exec sleep 600");
        let mut pid = None;
        let late = launch(&program, || SECONDS.load(Ordering::Relaxed) * 1_000_000_000).until(&mut |lines| {
            pid = pid.or_else(|| lines.trim().parse().ok());
            // Time stands still until it has said who it is.
            SECONDS.store(if pid.is_some() { 60 } else { 0 }, Ordering::Relaxed);
            None::<()>
        });
        assert!(matches!(late, Err(LaunchError::Late { seconds: 60, .. })), "{late:?}");
        assert!(!is_alive(pid.unwrap()));
    }
}
