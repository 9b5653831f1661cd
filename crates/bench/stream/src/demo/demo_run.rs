//! Plays the demonstration: load, kills, the end of the load, the audit.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::stream::Count;
use plimsoll_process::port;
use plimsoll_stores::audit::Report;

use super::child::{Child, Output, POLL_EVERY};
use super::environment::Environment;
use super::is_over;
use super::script::{Kill, Script};
use crate::audit::Question;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// The directory of the load, with the ledger of its records.
const FILL: &str = "fill";
/// The time limit for the first event to arrive.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The downtime of a killed server.
const DOWNTIME: Duration = Duration::from_secs(2);
/// The time limit for the remaining events to arrive after the load.
const ARRIVE_LIMIT: Duration = Duration::from_secs(300);
/// The interval at which the arrival is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A running demonstration. Fields are dropped in this order: the processes end before the servers.
pub struct DemoRun<'a> {
    shown: Child,
    filling: Child,
    /// Whether the load has ended.
    is_filled: bool,
    environment: Environment,
    metrics: SocketAddr,
    runs: u32,
    replayed: u64,
    flag: &'a AtomicBool,
}

/// The results of a demonstration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoResult {
    /// The duration of the load, in nanoseconds.
    pub length_ns: u64,
    /// The killed processes, with their times.
    pub kills: Vec<(Duration, Kill)>,
    /// The number of events that were read again and recognised.
    pub replayed: u64,
}

impl<'a> DemoRun<'a> {
    /// Starts the load and the pipeline.
    ///
    /// # Errors
    /// One of them cannot be started.
    pub fn begin(environment: Environment, flag: &'a AtomicBool) -> Outcome<Self> {
        let metrics = free_address()?;
        let filling =
            Child::start("the load", &environment.filling, environment.dir.join(FILL), Output::Log)?;
        let shown = start(&environment, 1, metrics)?;
        Ok(Self { shown, filling, is_filled: false, environment, metrics, runs: 1, replayed: 0, flag })
    }

    /// Runs the script until every event has arrived. `None` if the user stops it.
    ///
    /// # Errors
    /// A process ended early, or events do not arrive.
    pub fn run(&mut self, script: &Script) -> Outcome<Option<DemoResult>> {
        if !self.is_running()? {
            return Ok(None);
        }
        let began = clock::now();
        let mut kills = Vec::new();
        for (at, kill) in &script.kills {
            // A process must work again before the next kill, because the kill of an idle process proves nothing.
            if !self.run_until(began, *at)? || !self.is_running()? {
                return Ok(None);
            }
            kills.push((Duration::from_nanos(clock::now().since(began)), *kill));
            self.kill(*kill).deserves(Exit::Server)?;
        }
        if !self.run_until(began, script.length)? {
            return Ok(None);
        }
        self.filling.drain()?;
        self.is_filled = true;
        let length_ns = clock::now().since(began);
        self.environment.console.say("the load has ended; the remaining events arrive now");
        if !self.await_arrival()? {
            return Ok(None);
        }
        self.end()?;
        Ok(Some(DemoResult { length_ns, kills, replayed: self.replayed }))
    }

    /// Stops the pipeline and the load gracefully.
    ///
    /// # Errors
    /// One of them does not end properly.
    pub fn end(&mut self) -> Outcome<()> {
        let shown = self.shown.drain();
        self.note_replayed();
        if !self.is_filled {
            self.filling.drain()?;
        }
        Ok(shown?)
    }

    /// Compares the destination with the topic, and the topic with the ledger of the load.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn audit(&self) -> Outcome<Report> {
        let question =
            Question::of(&self.environment.file()?)?.with_ledgers(&[self.environment.dir.join(FILL)])?;
        question.answer().deserves(Exit::Server)
    }

    /// Waits until the restarted pipeline has written an event; false if the user stops it.
    fn is_running(&self) -> Outcome<bool> {
        let began = clock::now();
        while self.shown.second().is_none_or(|second| second.count(Count::Written) == 0) {
            if u128::from(clock::now().since(began)) >= START_LIMIT.as_nanos() {
                let words = format!(
                    "nothing arrived within {} s: is this machine overloaded?",
                    START_LIMIT.as_secs()
                );
                return Err(anyhow!(words)).deserves(Exit::Server);
            }
            if !self.run_until(clock::now(), POLL_EVERY)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets the pipeline run until `at` after `began`; false if the user stops it.
    fn run_until(&self, began: Instant, at: Duration) -> anyhow::Result<bool> {
        while u128::from(clock::now().since(began)) < at.as_nanos() {
            if is_over(self.flag) {
                return Ok(false);
            }
            self.shown.check()?;
            if !self.is_filled {
                self.filling.check()?;
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(true)
    }

    fn kill(&mut self, kill: Kill) -> anyhow::Result<()> {
        self.environment
            .console
            .say(&format!("         the {} is killed (SIGKILL), and started again", kill.word()));
        match kill {
            Kill::Pipeline => {
                self.note_replayed();
                self.shown.kill()?;
                self.runs += 1;
                self.shown = start(&self.environment, self.runs, self.metrics)?;
            }
            Kill::Server => {
                self.environment.server.kill().context("kill the server")?;
                std::thread::sleep(DOWNTIME);
                self.environment.server.restart().context("start the server again")?;
            }
            Kill::Broker => {
                self.environment.broker.kill().context("kill the broker")?;
                std::thread::sleep(DOWNTIME);
                self.environment.broker.restart().context("start the broker again")?;
            }
        }
        Ok(())
    }

    fn note_replayed(&mut self) {
        self.replayed += self.shown.second().map_or(0, |second| second.count(Count::Replayed));
    }

    /// Waits until the audit finds no missing event; false if the user stops it.
    fn await_arrival(&self) -> Outcome<bool> {
        let began = clock::now();
        while self.audit()?.lost() > 0 {
            if !self.run_until(clock::now(), CHECK_EVERY)? {
                return Ok(false);
            }
            if u128::from(clock::now().since(began)) >= ARRIVE_LIMIT.as_nanos() {
                self.environment.console.say("events are still missing at the time limit");
                return Ok(true);
            }
        }
        Ok(true)
    }
}

/// Starts the pipeline for the `run`-th time.
fn start(environment: &Environment, run: u32, metrics: SocketAddr) -> anyhow::Result<Child> {
    let out: PathBuf = environment.dir.join(format!("run-{run}"));
    Child::start("the pipeline", &environment.shown, out, Output::Terminal(metrics))
}

/// An address for the metrics that stays the same after a restart.
fn free_address() -> anyhow::Result<SocketAddr> {
    let [port] = port::free::<1>().context("find a free port")?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}
