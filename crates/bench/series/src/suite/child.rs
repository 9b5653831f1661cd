//! Runs one load as a child process and watches it until it ends.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use plimsoll_host::process;
use plimsoll_measure::clock;
use plimsoll_process::procfs::started_by;
use plimsoll_process::{Child, Lifetime};

use super::cpus::{Cpus, held};
use super::progress::Progress;
use super::watch::{Action, Cause, Look, Report, Watch};
use plimsoll_run::reexec;

/// How often a process is looked at, and the wish to stop passed on.
const POLL: Duration = Duration::from_millis(50);

/// What is run, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Words for this program.
    pub words: &'a [String],
    /// The server, where the words do not say it.
    pub server: Option<&'a str>,
    /// Where the run goes.
    pub out: &'a Path,
    /// Where its output goes.
    pub log: &'a Path,
    /// The CPUs that it may use.
    pub cpus: Option<&'a Cpus>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    /// When it was started and when it had ended, in milliseconds since 1970.
    pub from_ms: u64,
    /// Likewise.
    pub to_ms: u64,
    /// What it ended with.
    pub status: ExitStatus,
    /// Why it was ended, if it did not end by itself.
    pub cause: Option<Cause>,
}

impl Start<'_> {
    /// Starts it out of the terminal's reach, so that Ctrl-C comes to it through us and once only. It is asked to end when this
    /// process is gone, even if that was killed: nobody would watch it.
    ///
    /// # Errors
    /// When the program cannot be started.
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = File::create(self.log).with_context(|| format!("write {}", self.log.display()))?;
        let mut command = reexec::command();
        let server = self.server.into_iter().flat_map(|server| ["--server", server]).map(str::to_owned);
        reexec::give(&mut command, self.words.iter().cloned().chain(server));
        command.arg("--out").arg(self.out).arg("--json");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        held(self.cpus, || Child::run(command, Lifetime::Asked))?.context("start this program again")
    }

    /// Runs it to its end, or ends it when the watchdog says so.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn watched(
        &self,
        guard: &mut Guard<'_>,
        progress: &mut dyn Progress,
        settings: super::watch::Settings,
    ) -> anyhow::Result<Over> {
        let from_ms = clock::wall_ms();
        let child = self.spawn()?;
        let mut watch = Watch::new(settings, clock::now());
        let status = loop {
            if let Some(status) = child.wait(POLL) {
                break status;
            }
            guard.step(&mut watch, progress, &child);
        };
        Ok(Over { from_ms, to_ms: clock::wall_ms(), status, cause: watch.ended_for() })
    }
}

/// Who watches, and whom it tells.
pub struct Guard<'a> {
    /// The wish to stop.
    pub flag: &'a AtomicBool,
    /// Processes of the server.
    pub servers: Vec<u32>,
    /// Who is told how far a run is.
    pub say: &'a mut dyn FnMut(Said),
}

/// What the watchdog tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    /// How far it is.
    Far(Report),
    /// It was asked to end.
    Asked(Cause),
    /// It was killed.
    Killed,
}

impl Guard<'_> {
    fn step(&mut self, watch: &mut Watch, progress: &mut dyn Progress, child: &Child) {
        let now = clock::now();
        if watch.is_due(now) {
            // What the run starts by itself, such as a server, works for it.
            let pids = self.servers.iter().copied().chain([child.pid()]).chain(started_by(child.pid()));
            let cpu_ns = pids.filter_map(process::usage).map(|usage| usage.cpu_ns).sum();
            if let Action::Say(report) = watch.look(now, Look { seen: progress.look(), cpu_ns }) {
                (self.say)(Said::Far(report));
            }
        }
        match watch.step(now, self.flag.load(Ordering::Relaxed)) {
            Some(Action::Ask(cause)) => {
                (self.say)(Said::Asked(cause));
                // One that cannot hear it is killed when its time is over.
                child.interrupt().unwrap_or_default();
            }
            Some(Action::Kill(_)) => {
                (self.say)(Said::Killed);
                // One that does not die at once is waited for.
                child.kill().unwrap_or_default();
            }
            _ => {}
        }
    }
}
