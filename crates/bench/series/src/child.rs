//! Runs this program, or another build of it, as a child process that ends with this process, and watches it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use plimsoll_measure::clock;
use plimsoll_process::procfs::started_by;
use plimsoll_process::{Child, Lifetime};
use plimsoll_run::reexec;
use plimsoll_run::system::cpu_ns;

use crate::cpus::{Cpus, pinned};
use crate::progress::Progress;
use crate::watch::{Action, Cause, Report, Sample, Watch};

/// The interval between two checks of the process. A stop request takes effect within this time.
const POLL: Duration = Duration::from_millis(50);

/// A child process to start.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The program; this one if absent.
    pub program: Option<&'a Path>,
    /// Its arguments, without the directory.
    pub arguments: &'a [String],
    /// Its run directory.
    pub out: &'a Path,
    /// The file for its messages. `None`: the messages go to the stderr of this process.
    pub log: Option<&'a Path>,
    /// The CPUs that it may use.
    pub cpus: Option<&'a Cpus>,
}

/// A child process that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The time of its start, in milliseconds since 1970.
    pub from_ms: u64,
    /// The time of its end, in milliseconds since 1970.
    pub to_ms: u64,
    /// Its exit status.
    pub status: ExitStatus,
    /// The reason for which this process ended it, if it did.
    pub cause: Option<Cause>,
}

impl Ended {
    /// Its exit code, if it has one.
    pub fn code(&self) -> Option<u8> {
        self.status.code().and_then(|code| u8::try_from(code).ok())
    }
}

impl Start<'_> {
    /// Starts it in its own process group, so that Ctrl-C reaches it only through this process. It receives
    /// SIGINT when this process ends, even by a kill, because no watchdog could end it then.
    fn spawn(&self) -> anyhow::Result<Child> {
        let mut command = self.program.map_or_else(reexec::command, Command::new);
        reexec::give(&mut command, self.arguments.iter().cloned());
        command.arg("--out").arg(self.out).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(log) = self.log {
            command.stderr(File::create(log).with_context(|| format!("write {}", log.display()))?);
        }
        let start = || format!("start {}", self.program.unwrap_or(reexec::program()).display());
        pinned(self.cpus, || Child::run(command, Lifetime::Interrupted))?.with_context(start)
    }

    /// Runs the process to its end. When `flag` is set, the process gets a request to end. A watchdog may end it earlier.
    ///
    /// # Errors
    /// When it cannot be started, or the signal cannot be sent.
    pub fn run(&self, flag: &AtomicBool, mut watchdog: Option<Watchdog<'_>>) -> anyhow::Result<Ended> {
        let from_ms = clock::wall_ms();
        let child = self.spawn()?;
        let mut is_asked = false;
        let status = loop {
            if let Some(status) = child.wait(POLL) {
                break status;
            }
            let is_over = flag.load(Ordering::Relaxed);
            match &mut watchdog {
                Some(watchdog) => watchdog.step(&child, is_over),
                None if is_over && !is_asked => {
                    is_asked = true;
                    child.interrupt().context("ask a run to end")?;
                }
                None => {}
            }
        };
        let cause = watchdog.and_then(|watchdog| watchdog.watch.ended_for());
        Ok(Ended { from_ms, to_ms: clock::wall_ms(), status, cause })
    }
}

/// Watches the progress of a child process.
pub struct Watchdog<'a> {
    /// Decides when the process is asked to end and when it is killed.
    pub watch: Watch,
    /// The files that show its progress.
    pub progress: Box<dyn Progress>,
    /// The IDs of the server's processes.
    pub servers: Vec<u32>,
    /// Prints a message.
    pub say: &'a dyn Fn(Message),
}

/// A message of the watchdog.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Message {
    /// The progress.
    Progress(Report),
    /// The process was asked to end.
    Asked(Cause),
    /// The process was killed.
    Killed,
}

impl Watchdog<'_> {
    fn step(&mut self, child: &Child, is_over: bool) {
        let now = clock::now();
        if self.watch.is_due(now) {
            // The CPU time of processes that the run started, such as a server, counts as well.
            let pids = self.servers.iter().copied().chain([child.pid()]).chain(started_by(child.pid()));
            let cpu_ns = cpu_ns(&pids.collect::<Vec<_>>());
            let report = self.watch.record(now, Sample { counters: self.progress.read(), cpu_ns });
            (self.say)(Message::Progress(report));
        }
        match self.watch.step(now, is_over) {
            Some(Action::Ask(cause)) => {
                (self.say)(Message::Asked(cause));
                // An error is ignored: a process without the signal is killed when its time is over.
                child.interrupt().unwrap_or_default();
            }
            Some(Action::Kill) => {
                (self.say)(Message::Killed);
                // An error is ignored: the loop waits until the process ends.
                child.kill().unwrap_or_default();
            }
            None => {}
        }
    }
}
