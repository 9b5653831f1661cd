//! The process of a pipeline: started, killed, looked at, and started again if it ended by itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::stream::{Count, Second};
use rustix::process::{Pid, Signal, kill_process};

/// How long an end in order may take, in nanoseconds.
const END_NS_MAX: u64 = 120 * SECOND_NS;
/// How long it stays down when it ended by itself, as under a supervisor.
const DOWN: Duration = Duration::from_millis(500);
/// More often it must not end by itself.
const ENDS_MAX: u32 = 20;
const LOOK: Duration = Duration::from_millis(20);

/// The process of a pipeline. It ends with this value.
pub struct Engine {
    name: String,
    dir: PathBuf,
    overrides: Vec<String>,
    child: Child,
    runs: u32,
    ends: u32,
}

impl Engine {
    /// The program, as a user runs it.
    pub fn program() -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        program.stdin(Stdio::null()).env("NO_COLOR", "1");
        program
    }

    /// Starts the pipeline of the file `NAME.yaml` in a directory, which gets its log and its runs.
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

    /// Kills it, and starts it again after a time.
    pub fn kill(&mut self, down: Duration) -> anyhow::Result<()> {
        self.end_at_once()?;
        thread::sleep(down);
        self.again()
    }

    /// Starts it again with other settings.
    pub fn restart_with(&mut self, overrides: &[&str]) -> anyhow::Result<()> {
        let overrides: Vec<String> = overrides.iter().map(|&one| one.to_owned()).collect();
        if overrides == self.overrides {
            return Ok(());
        }
        self.overrides = overrides;
        terminate(&mut self.child)?;
        self.again()
    }

    /// Starts it again if it ended by itself.
    pub fn tend(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
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

    /// How often it ended by itself.
    pub fn ends(&self) -> u32 {
        self.ends
    }

    /// Which of its runs this is, what that has written, and what it has in flight.
    pub fn progress(&self) -> (u32, u64, u64) {
        let seconds = fs::read_to_string(run_dir(&self.dir, &self.name, self.runs).join("seconds.ndjson"));
        let seconds = seconds.unwrap_or_default();
        // The last line may be half of one.
        let last = seconds.lines().rev().find_map(|line| serde_json::from_str::<Second>(line).ok());
        let (written, in_flight) =
            last.map_or((0, 0), |last| (last.count(Count::Written), last.in_flight_events));
        (self.runs, written, in_flight)
    }

    /// Asks it to write and commit what it has read, and waits for its end.
    pub fn finish(mut self) -> anyhow::Result<ExitStatus> {
        terminate(&mut self.child)
    }

    fn again(&mut self) -> anyhow::Result<()> {
        self.runs += 1;
        self.child = launch(&self.dir, &self.name, self.runs, &self.overrides)?;
        Ok(())
    }

    fn end_at_once(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // One that has ended is no failure, and nobody is left to tell another.
        let _ = self.end_at_once();
    }
}

fn log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

fn run_dir(dir: &Path, name: &str, run: u32) -> PathBuf {
    dir.join(format!("{name}-{run:03}"))
}

fn launch(dir: &Path, name: &str, run: u32, overrides: &[String]) -> anyhow::Result<Child> {
    let log = log(dir, name);
    let said = File::options().create(true).append(true).open(&log);
    let said = said.with_context(|| format!("write {}", log.display()))?;
    let mut command = Engine::program();
    command.args(["pipeline", "run"]).arg(dir.join(format!("{name}.yaml"))).arg("--out");
    command.arg(run_dir(dir, name, run)).stdout(said.try_clone()?).stderr(said);
    for one in overrides {
        command.args(["--set", one]);
    }
    command.spawn().with_context(|| format!("start {name}"))
}

fn terminate(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let began = clock::now();
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        && child.try_wait()?.is_none()
    {
        kill_process(pid, Signal::TERM).context("ask a pipeline to end")?;
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        ensure!(
            clock::now().since(began) < END_NS_MAX,
            "a pipeline did not end within {} s after it was asked to",
            END_NS_MAX / SECOND_NS
        );
        thread::sleep(LOOK);
    }
}
