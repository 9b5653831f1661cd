//! One load as a process of its own, watched until it ends.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use plimsoll_measure::clock;
use plimsoll_server::process;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use super::cpus::{Cpus, held};
use super::progress::Progress;
use super::watch::{Action, Cause, Look, Report, Watch};
use crate::itself;

/// How often a process is looked at, and the wish to stop passed on.
const POLL: Duration = Duration::from_millis(50);
/// What is read of a log, in bytes, and told of it, in lines.
const LOG_BYTES_MAX: usize = 4096;
const LOG_LINES: usize = 3;

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
    /// Starts it in a process group of its own, so that Ctrl-C comes to it through us and once only.
    ///
    /// # Errors
    /// When the program cannot be started.
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = || File::create(self.log).with_context(|| format!("write {}", self.log.display()));
        let mut command = itself::command();
        let own = std::process::id().to_string();
        command.args(["suite", "--bound-to", &own, "--"]);
        command.args(self.words).arg("--out").arg(self.out).arg("--json");
        command.args(self.server.into_iter().flat_map(|server| ["--server", server]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log()?).process_group(0);
        held(self.cpus, || command.spawn())?.context("start this program again")
    }

    /// Runs it to its end, or ends it when the watchdog says so.
    ///
    /// # Errors
    /// When it cannot be started, or the system does not tell how it is.
    pub fn watched(
        &self,
        guard: &mut Guard<'_>,
        progress: &mut dyn Progress,
        settings: super::watch::Settings,
    ) -> anyhow::Result<Over> {
        let from_ms = clock::wall_ms();
        let mut child = self.spawn()?;
        let mut watch = Watch::new(settings, clock::now());
        let status = loop {
            if let Some(status) = child.try_wait().context("wait for a run")? {
                break status;
            }
            guard.step(&mut watch, progress, &child);
            std::thread::sleep(POLL);
        };
        Ok(Over { from_ms, to_ms: clock::wall_ms(), status, cause: watch.ended_for() })
    }
}

/// Becomes this program with other words, asked to end with SIGINT when the suite that started it is gone, even if that was
/// killed: nobody would watch it. What a process asks of its parent's death outlives its becoming another program.
///
/// # Errors
/// Always: it comes back only when it cannot be done.
pub fn transform(words: &[String], parent: u32) -> anyhow::Error {
    let bound = set_parent_process_death_signal(Some(Signal::INT)).context("be bound to the suite");
    if let Err(error) = bound {
        return error;
    }
    // The parent may have gone before the bond was there.
    if getppid().is_none_or(|pid| pid.as_raw_nonzero().get() as u32 != parent) {
        return anyhow::anyhow!("the suite that started this run is gone");
    }
    anyhow::Error::from(itself::command().args(words).exec()).context("become a run")
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
            let pids = self.servers.iter().copied().chain([child.id()]).chain(started_by(child.id()));
            let cpu_ns = pids.filter_map(process::usage).map(|usage| usage.cpu_ns).sum();
            if let Action::Say(report) = watch.look(now, Look { seen: progress.look(), cpu_ns }) {
                (self.say)(Said::Far(report));
            }
        }
        match watch.step(now, self.flag.load(Ordering::Relaxed)) {
            Some(Action::Ask(cause)) => {
                (self.say)(Said::Asked(cause));
                send(child, Signal::INT);
            }
            Some(Action::Kill(_)) => {
                (self.say)(Said::Killed);
                send(child, Signal::KILL);
            }
            _ => {}
        }
    }
}

/// The processes that a process has started and that are still there; none where the system does not tell.
fn started_by(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    told.flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The process has not been waited for, so its number is still its own.
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // One that has just ended needs no word.
        kill_process(pid, signal).unwrap_or_default();
    }
}

/// The last lines that a process said, as one.
pub fn last_words(log: &Path) -> Option<String> {
    let bytes = std::fs::read(log).ok()?;
    let tail = &bytes[bytes.len().saturating_sub(LOG_BYTES_MAX)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join(" ");
    let last = last.trim_start_matches("plimsoll: ").to_owned();
    (!last.is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_started_is_found_while_it_is_there() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        assert!(started_by(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!started_by(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn the_last_lines_of_a_log_are_told_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(last_words(&log), None);
        std::fs::write(&log, "a\nplimsoll: b\n\nc\nd\n").unwrap();
        assert_eq!(last_words(&log).unwrap(), "b c d");
        std::fs::write(&log, "\n").unwrap();
        assert_eq!(last_words(&log), None);
    }
}
