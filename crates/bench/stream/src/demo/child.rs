//! Runs one pipeline as a child process that ends with this process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_measure::stream::Second;
use plimsoll_process::{Child as Process, Lifetime};

use plimsoll_run::exit::Exit;
use plimsoll_run::reexec::{self, last_words};

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
    /// Starts `plimsoll pipeline run` out of the terminal's reach: Ctrl-C comes to it through us. It dies with this process, as
    /// its servers do: without them it could not finish anything.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(name: &str, file: &Path, out: PathBuf, said: Said) -> anyhow::Result<Self> {
        let mut command = reexec::command();
        command.args(["pipeline", "run"]).arg(file).arg("--out").arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null());
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
        let process = Process::run(command, Lifetime::Bound).with_context(|| format!("start {name}"))?;
        Ok(Self { process, name: name.to_owned(), out, log })
    }

    /// Refuses to go on if it has ended by itself.
    ///
    /// # Errors
    /// That it has, and what it said last.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.process.ended() {
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
    pub fn kill(&self) -> anyhow::Result<()> {
        self.process.kill().with_context(|| format!("kill {}", self.name))
    }

    /// Asks it to write what it has read, and to end.
    ///
    /// # Errors
    /// When it does not end in time, or ends with a failure.
    pub fn drain(&self) -> anyhow::Result<()> {
        self.process.terminate(DRAIN_LIMIT).with_context(|| format!("ask {} to end", self.name))?;
        match self.process.ended() {
            Some(status) if status.code() == Some(i32::from(Exit::Held.code())) => Ok(()),
            Some(status) => bail!("{}", self.ended(status)),
            None => {
                self.kill()?;
                bail!("{} did not end within {} s and was killed", self.name, DRAIN_LIMIT.as_secs())
            }
        }
    }
}
