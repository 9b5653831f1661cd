//! Runs the process of a pipeline: starts, kills and polls it, and restarts it when it ends by itself.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_measure::stream::{Count, Second};
use plimsoll_process::{Child, Lifetime, Program};

/// The program, as a user runs it.
const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The time limit of a graceful end.
const END_LIMIT: Duration = Duration::from_secs(120);
/// The downtime after the process ended by itself, as under a supervisor.
const DOWN: Duration = Duration::from_millis(500);
/// The largest number of unexpected ends.
const ENDS_MAX: u32 = 20;

/// The process of a pipeline. It ends with this value, and with this process.
pub struct Engine {
    name: String,
    dir: PathBuf,
    overrides: Vec<String>,
    child: Child,
    runs: u32,
    ends: u32,
}

impl Engine {
    /// The command of the program, for a single use.
    pub fn program() -> Command {
        let mut program = Command::new(PROGRAM);
        program.stdin(Stdio::null()).env("NO_COLOR", "1");
        program
    }

    /// Starts the pipeline of the file `NAME.yaml` in a directory, which receives its log and its runs.
    pub fn start(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let child = launch(dir, name, 0, &[])?;
        Ok(Self {
            name: name.to_owned(),
            dir: dir.to_owned(),
            overrides: Vec::new(),
            child,
            runs: 0,
            ends: 0,
        })
    }

    /// Kills the process, and restarts it after a time.
    pub fn kill(&mut self, down: Duration) -> anyhow::Result<()> {
        self.child.kill()?;
        thread::sleep(down);
        self.again()
    }

    /// Restarts it with other settings.
    pub fn restart_with(&mut self, overrides: &[&str]) -> anyhow::Result<()> {
        let overrides: Vec<String> = overrides.iter().map(|&one| one.to_owned()).collect();
        if overrides == self.overrides {
            return Ok(());
        }
        self.overrides = overrides;
        terminate(&self.child)?;
        self.again()
    }

    /// Restarts it if it has ended by itself.
    pub fn tend(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.ended() else { return Ok(()) };
        self.ends += 1;
        ensure!(
            self.ends <= ENDS_MAX,
            "{} ended by itself {} times, the last time with {status}: see {}",
            self.name,
            self.ends,
            log(&self.dir, &self.name).display()
        );
        thread::sleep(DOWN);
        self.again()
    }

    /// The number of times that it ended by itself.
    pub fn ends(&self) -> u32 {
        self.ends
    }

    /// The current run: its number, its written events, and its events in flight.
    pub fn progress(&self) -> (u32, u64, u64) {
        let seconds = fs::read_to_string(run_dir(&self.dir, &self.name, self.runs).join("seconds.ndjson"));
        let seconds = seconds.unwrap_or_default();
        // The last line may be incomplete.
        let last = seconds.lines().rev().find_map(|line| serde_json::from_str::<Second>(line).ok());
        let (written, in_flight) =
            last.map_or((0, 0), |last| (last.count(Count::Written), last.in_flight_events));
        (self.runs, written, in_flight)
    }

    /// Drains the pipeline and waits for its end.
    pub fn finish(self) -> anyhow::Result<ExitStatus> {
        terminate(&self.child)
    }

    fn again(&mut self) -> anyhow::Result<()> {
        self.runs += 1;
        self.child = launch(&self.dir, &self.name, self.runs, &self.overrides)?;
        Ok(())
    }
}

fn log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

fn run_dir(dir: &Path, name: &str, run: u32) -> PathBuf {
    dir.join(format!("{name}-{run:03}"))
}

fn launch(dir: &Path, name: &str, run: u32, overrides: &[String]) -> anyhow::Result<Child> {
    let mut args = ["pipeline", "run"].map(OsString::from).to_vec();
    args.push(dir.join(format!("{name}.yaml")).into());
    args.extend([OsString::from("--out"), OsString::from(run_dir(dir, name, run))]);
    args.extend(overrides.iter().flat_map(|one| [OsString::from("--set"), OsString::from(one)]));
    // It runs in this process's directory, because `dir` may be relative.
    let (path, log, directory) = (PROGRAM.into(), log(dir, name), ".".into());
    let program = Program { name: "the program", path, args, log, directory, hidden_variables: &[] };
    Child::spawn(&program, None, Lifetime::Bound).with_context(|| format!("start {name}, or write its log"))
}

fn terminate(child: &Child) -> anyhow::Result<ExitStatus> {
    child.terminate(END_LIMIT).context("ask a pipeline to end")?;
    let late = || format!("a pipeline did not end within {} s after it was asked to", END_LIMIT.as_secs());
    child.ended().with_context(late)
}
