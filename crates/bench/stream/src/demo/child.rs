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

/// The time limit for a pipeline to write its events in flight.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// The interval at which a process is polled.
pub const POLL_EVERY: Duration = Duration::from_millis(50);
/// The file to which a pipeline appends a line each second.
const SECONDS: &str = "seconds.ndjson";

/// The output of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The terminal, with metrics at an address.
    Terminal(std::net::SocketAddr),
    /// A log beside the pipeline's directory.
    Log,
}

/// A running or ended pipeline. Dropping it kills it.
pub struct Child {
    process: Process,
    name: String,
    out: PathBuf,
    log: Option<PathBuf>,
}

impl Child {
    /// Starts `plimsoll pipeline run` in its own process group, so that Ctrl-C reaches only this process. The
    /// child ends with this process, because its servers end too and it could not finish without them.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, file: &Path, out: PathBuf, output: Output) -> anyhow::Result<Self> {
        let mut command = reexec::command();
        command.args(["pipeline", "run"]).arg(file).arg("--out").arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let log = match output {
            Output::Terminal(address) => {
                command.arg("--listen").arg(address.to_string());
                None
            }
            Output::Log => {
                let log = out.with_extension("log");
                let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
                command.arg("--quiet").stderr(file);
                Some(log)
            }
        };
        let process = Process::run(command, Lifetime::Bound).with_context(|| format!("start {name}"))?;
        Ok(Self { process, name: name.to_owned(), out, log })
    }

    /// Returns an error if the process has ended by itself.
    ///
    /// # Errors
    /// The exit status and the last line of output.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.process.ended() {
            None => Ok(()),
            Some(status) => bail!("{}", self.ended(status)),
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        let words = self
            .log
            .as_deref()
            .and_then(last_words)
            .unwrap_or_else(|| "its last line names the cause".into());
        format!("{} ended early ({status}): {words}", self.name)
    }

    /// The last reported second, if any.
    pub fn second(&self) -> Option<Second> {
        let text = std::fs::read_to_string(self.out.join(SECONDS)).ok()?;
        text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// Kills the process.
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.process.kill().with_context(|| format!("kill {}", self.name))
    }

    /// Lets the pipeline write its events in flight, and waits for its end.
    ///
    /// # Errors
    /// It does not end in time, or ends with a failure.
    pub fn drain(&self) -> anyhow::Result<()> {
        self.process.terminate(DRAIN_LIMIT).with_context(|| format!("stop {}", self.name))?;
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
