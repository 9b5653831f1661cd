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

use super::child::{Child, LOOK, Said};
use super::is_over;
use super::script::{Kill, Script};
use super::stage::Stage;
use crate::audit::Question;
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// How long the first event may take to arrive.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a server that was killed is away.
const AWAY: Duration = Duration::from_secs(2);
/// How long what is left may take to arrive when no more comes.
const ARRIVE_LIMIT: Duration = Duration::from_secs(300);
/// How often it is asked whether everything has arrived.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A demonstration under way. The processes end before the servers: fields are dropped in this order.
pub struct Play<'a> {
    shown: Child,
    filling: Child,
    /// Whether no more events come.
    is_filled: bool,
    stage: Stage,
    metrics: SocketAddr,
    runs: u32,
    replayed: u64,
    flag: &'a AtomicBool,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// How long events came, in nanoseconds.
    pub length_ns: u64,
    /// What was killed, and when.
    pub kills: Vec<(Duration, Kill)>,
    /// Events that came again and were known.
    pub replayed: u64,
}

impl<'a> Play<'a> {
    /// Starts the load and the pipeline.
    ///
    /// # Errors
    /// When one of them cannot be started.
    pub fn begin(stage: Stage, flag: &'a AtomicBool) -> Outcome<Self> {
        let metrics = free_address()?;
        let filling = Child::start("the load", &stage.filling, stage.dir.join("fill"), Said::InLog)?;
        let shown = start(&stage, 1, metrics)?;
        Ok(Self { shown, filling, is_filled: false, stage, metrics, runs: 1, replayed: 0, flag })
    }

    /// Plays the script until every event has arrived; nothing if the user wanted it to end.
    ///
    /// # Errors
    /// When something ended before its time, or events do not arrive.
    pub fn perform(&mut self, script: &Script) -> Outcome<Option<Played>> {
        if !self.is_at_work()? {
            return Ok(None);
        }
        let began = clock::now();
        let mut kills = Vec::new();
        for (at, kill) in &script.kills {
            // What was killed before must be at work again: a kill of what stands still proves nothing.
            if !self.rest(began, *at)? || !self.is_at_work()? {
                return Ok(None);
            }
            kills.push((Duration::from_nanos(clock::now().since(began)), *kill));
            self.kill(*kill).deserves(Exit::Server)?;
        }
        if !self.rest(began, script.length)? {
            return Ok(None);
        }
        self.filling.drain()?;
        self.is_filled = true;
        let length_ns = clock::now().since(began);
        self.stage.console.say("no more events come; what is left arrives now");
        if !self.arrive()? {
            return Ok(None);
        }
        self.end()?;
        Ok(Some(Played { length_ns, kills, replayed: self.replayed }))
    }

    /// Ends the pipeline and the load gently.
    ///
    /// # Errors
    /// When one of them does not end well.
    pub fn end(&mut self) -> Outcome<()> {
        let shown = self.shown.drain();
        self.note_replayed();
        if !self.is_filled {
            self.filling.drain()?;
        }
        Ok(shown?)
    }

    /// Holds the destination against the topic.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn audited(&self) -> Outcome<Report> {
        let question = Question::of(&self.stage.file()?)?;
        question.answer().deserves(Exit::Server)
    }

    /// Waits until the pipeline has written something since it was started; false if the user wanted it to end meanwhile.
    fn is_at_work(&self) -> Outcome<bool> {
        let began = clock::now();
        while self.shown.second().is_none_or(|second| second.count(Count::Written) == 0) {
            if u128::from(clock::now().since(began)) >= START_LIMIT.as_nanos() {
                let words = format!(
                    "nothing arrived within {} s: is this machine overloaded?",
                    START_LIMIT.as_secs()
                );
                return Err(anyhow!(words)).deserves(Exit::Server);
            }
            if !self.rest(clock::now(), LOOK)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets the pipeline work until so long after `began`; false if the user wanted it to end meanwhile.
    fn rest(&self, began: Instant, at: Duration) -> anyhow::Result<bool> {
        while u128::from(clock::now().since(began)) < at.as_nanos() {
            if is_over(self.flag) {
                return Ok(false);
            }
            self.shown.check()?;
            if !self.is_filled {
                self.filling.check()?;
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    fn kill(&mut self, kill: Kill) -> anyhow::Result<()> {
        self.stage
            .console
            .say(&format!("         the {} is killed (SIGKILL), and started again", kill.word()));
        match kill {
            Kill::Pipeline => {
                self.note_replayed();
                self.shown.kill()?;
                self.runs += 1;
                self.shown = start(&self.stage, self.runs, self.metrics)?;
            }
            Kill::Server => {
                self.stage.server.kill().context("kill the server")?;
                std::thread::sleep(AWAY);
                self.stage.server.restart().context("start the server again")?;
            }
            Kill::Broker => {
                self.stage.broker.kill().context("kill the broker")?;
                std::thread::sleep(AWAY);
                self.stage.broker.restart().context("start the broker again")?;
            }
        }
        Ok(())
    }

    fn note_replayed(&mut self) {
        self.replayed += self.shown.second().map_or(0, |second| second.count(Count::Replayed));
    }

    /// Waits until the audit misses nothing; false if the user wanted it to end meanwhile.
    fn arrive(&self) -> Outcome<bool> {
        let began = clock::now();
        while self.audited()?.lost() > 0 {
            if !self.rest(clock::now(), ASK_EVERY)? {
                return Ok(false);
            }
            if u128::from(clock::now().since(began)) >= ARRIVE_LIMIT.as_nanos() {
                self.stage.console.say("events are still missing, and the time is over");
                return Ok(true);
            }
        }
        Ok(true)
    }
}

/// The pipeline for the `run`-th time.
fn start(stage: &Stage, run: u32, metrics: SocketAddr) -> anyhow::Result<Child> {
    let out: PathBuf = stage.dir.join(format!("run-{run}"));
    Child::start("the pipeline", &stage.shown, out, Said::Aloud(metrics))
}

/// An address for the metrics that stays the same over a restart.
fn free_address() -> anyhow::Result<SocketAddr> {
    let [port] = port::free::<1>().context("find a free port")?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}
