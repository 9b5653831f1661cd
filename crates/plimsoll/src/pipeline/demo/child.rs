//! One pipeline as a process of its own, which ends with this one, even if this one is killed.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_measure::clock;
use plimsoll_measure::stream::Second;
use rustix::process::{Pid, Signal, kill_process};

use crate::exit::Exit;
use crate::itself;
use crate::suite::child::last_words;

/// How long a pipeline may take to write what it has read.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// How often a process is looked at.
pub const LOOK: Duration = Duration::from_millis(50);
/// The file that a pipeline appends a line to each second.
const SECONDS: &str = "seconds.ndjson";

/// Where a pipeline says how it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// On the terminal, with its metrics at an address.
    Aloud(std::net::SocketAddr),
    /// In a log beside its directory.
    InLog,
}

/// A pipeline that runs, or has ended. Dropping it kills it.
pub struct Child {
    process: Process,
    name: String,
    out: PathBuf,
    log: Option<PathBuf>,
}

impl Child {
    /// Starts `plimsoll pipeline run` in a process group of its own: Ctrl-C comes to it through us.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(name: &str, file: &Path, out: PathBuf, said: Said) -> anyhow::Result<Self> {
        let mut command = itself::command();
        let own = std::process::id().to_string();
        command.args(["suite", "--bound-to", &own, "--", "pipeline", "run"]).arg(file).arg("--out").arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let log = match said {
            Said::Aloud(address) => {
                command.arg("--listen").arg(address.to_string());
                None
            }
            Said::InLog => {
                let log = out.with_extension("log");
                let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
                command.arg("--quiet").stderr(file);
                Some(log)
            }
        };
        let process = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { process, name: name.to_owned(), out, log })
    }

    /// Refuses to go on if it has ended by itself.
    ///
    /// # Errors
    /// That it has, and what it said last.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait().context("wait for a process")? {
            None => Ok(()),
            Some(status) => bail!("{}", self.ended(status)),
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        let words =
            self.log.as_deref().and_then(last_words).unwrap_or_else(|| "its last line says why".into());
        format!("{} ended before its time ({status}): {words}", self.name)
    }

    /// What it counted last, if it has counted.
    pub fn second(&self) -> Option<Second> {
        let text = std::fs::read_to_string(self.out.join(SECONDS)).ok()?;
        text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// Kills it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().with_context(|| format!("kill {}", self.name))?;
        self.process.wait().context("wait for a process").map(drop)
    }

    /// Asks it to write what it has read, and to end.
    ///
    /// # Errors
    /// When it does not end in time, or ends with a failure.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It has not been waited for, so the number is its own.
            kill_process(pid, Signal::TERM).with_context(|| format!("ask {} to end", self.name))?;
        }
        let began = clock::now();
        while u128::from(clock::now().since(began)) < DRAIN_LIMIT.as_nanos() {
            match self.process.try_wait().context("wait for a process")? {
                None => std::thread::sleep(LOOK),
                Some(status) if status.code() == Some(i32::from(Exit::Held.code())) => return Ok(()),
                Some(status) => bail!("{}", self.ended(status)),
            }
        }
        self.kill()?;
        bail!("{} did not end within {} s and was killed", self.name, DRAIN_LIMIT.as_secs())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already needs nothing, and an error has no receiver here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
