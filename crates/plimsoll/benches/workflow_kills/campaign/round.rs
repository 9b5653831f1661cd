//! Runs one round: starts everything, kills, waits for the end of all work, and audits.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_measure::random::Random;
use serde::{Deserialize, Serialize};

use super::audit::{self, Found};
use super::clients::{CLIENTS, Clients};
use super::engine::Engines;
use super::kind::{Backend, Kind};
use super::ledger::{self, Ledger};
use super::testbed::Testbed;

/// The time limit of every wait, in nanoseconds.
const PATIENCE_NS: u64 = 120 * SECOND_NS;
const LOOK: Duration = Duration::from_millis(20);
const AUDIT_EVERY: Duration = Duration::from_millis(500);
/// The number of acknowledgements that show that work goes on after a kill.
const PROGRESS: u64 = 20;
/// The longest delay of a kill after work goes on, and the longest downtime.
const MOMENT_MS: u64 = 400;
const DOWN_MS: u64 = 400;
/// One cut of the network in this many lasts longer than a lease.
const LONG_EVERY: u64 = 4;

/// The order for a round.
pub struct Order {
    /// The number, from 0.
    pub number: u32,
    /// The store.
    pub backend: Backend,
    /// The kills in their order.
    pub kills: Vec<Kind>,
    /// The length of the leases.
    pub lease: Span,
}

/// The result of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// The number, from 0.
    pub number: u32,
    /// The store.
    pub backend: Backend,
    /// The kills that were made.
    pub kills: Vec<Kind>,
    /// The audit.
    pub found: Found,
    /// The number of times that an engine ended by itself and was started again.
    pub ends: u32,
    /// The reason why the round is incomplete.
    pub trouble: Option<String>,
    /// The length of the round, in seconds.
    pub took_s: u64,
}

impl Round {
    /// Whether nothing was lost, duplicated or left unexplained.
    pub fn holds(&self) -> bool {
        self.trouble.is_none() && self.found.is_whole() && !self.kills.is_empty()
    }

    /// Formats the round as a line.
    pub fn line(&self) -> String {
        let Found { instances, signals, lost, duplicated, explained, unexplained, broken, strange, .. } =
            &self.found;
        let count = |kind: Kind| self.kills.iter().filter(|one| **one == kind).count();
        let kills: Vec<_> =
            Kind::ALL.iter().map(|kind| format!("{} {}", count(*kind), kind.name())).collect();
        let verdict = if self.holds() { "holds" } else { "DOES NOT HOLD" };
        let mut text = format!(
            "round {} {}: kills {}; {instances} instances, {signals} signals; lost {lost}, duplicated {duplicated}, strange {strange}, \
             broken {broken}; open and explained {explained}, unexplained {unexplained}; {} ends, {} s: {verdict}",
            self.number,
            self.backend.name(),
            kills.join(", "),
            self.ends,
            self.took_s,
        );
        for words in self.trouble.iter().chain(&self.found.examples) {
            text.push_str(&format!("\n    {words}"));
        }
        text
    }
}

/// Runs a round in a directory. A failure is part of the result.
pub fn run(order: &Order, random: Random, dir: &Path) -> Round {
    let began = clock::now();
    let mut round = Round {
        number: order.number,
        backend: order.backend,
        kills: Vec::new(),
        found: Found::default(),
        ends: 0,
        trouble: None,
        took_s: 0,
    };
    let made = Trial::begin(order, random, dir).and_then(|trial| trial.make(order, &mut round));
    round.trouble = made.err().map(|error| format!("{error:#}"));
    round.took_s = clock::now().since(began) / SECOND_NS;
    round
}

struct Trial<'a> {
    // Fields are dropped in this order: the engines end before their store.
    clients: Clients,
    engines: Engines,
    testbed: Testbed,
    random: Random,
    dir: &'a Path,
}

impl<'a> Trial<'a> {
    fn begin(order: &Order, mut random: Random, dir: &'a Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let testbed = Testbed::start(order.backend, random.bits())?;
        audit::prepare(&testbed.direct()?)?;
        let engines = Engines::start(&testbed.through_proxy(), order.lease, dir)?;
        let clients =
            Clients::start(CLIENTS, &engines.services, Ledger::create(&dir.join("ledger.ndjson"))?)?;
        Ok(Self { clients, engines, testbed, random, dir })
    }

    fn make(mut self, order: &Order, round: &mut Round) -> anyhow::Result<()> {
        for kind in &order.kills {
            self.wait_for_progress()?;
            self.pause(MOMENT_MS);
            self.strike(*kind, order.lease).with_context(|| format!("a kill of kind {}", kind.name()))?;
            round.kills.push(*kind);
            round.ends = self.engines.ends();
        }
        self.wait_for_progress()?;
        let Self { clients, mut engines, testbed, dir, .. } = self;
        let finished = thread::spawn(move || clients.finish());
        until("the clients' end", || {
            engines.tend()?;
            Ok(finished.is_finished())
        })?;
        finished.join().map_err(|_| anyhow::anyhow!("the clients panicked"))??;
        round.found = settled(&testbed, &mut engines, dir)?;
        round.ends = engines.ends();
        Ok(())
    }

    fn strike(&mut self, kind: Kind, lease: Span) -> anyhow::Result<()> {
        let down = Duration::from_millis(self.below(DOWN_MS));
        match kind {
            Kind::Engine => {
                let at = self.any_engine();
                let engine = self.engines.engine(at);
                engine.child().kill()?;
                thread::sleep(down);
                engine.again()
            }
            Kind::Zombie => self.zombie(down),
            Kind::Server => self.testbed.kill(down),
            Kind::Network => {
                let is_long = self.below(LONG_EVERY) == 0;
                let long = if is_long { Duration::from_nanos(lease.as_ns()) } else { Duration::ZERO };
                let which = self.random.bits() >> 8;
                self.testbed.disturb(which, down + long)
            }
        }
    }

    /// Pauses an engine until others hold its partitions, and resumes it.
    fn zombie(&mut self, extra: Duration) -> anyhow::Result<()> {
        let (at, direct) = (self.any_engine(), self.testbed.direct()?);
        let child = self.engines.engine(at).child();
        let mark = format!("-{}-", child.pid());
        until("an engine with partitions", || {
            let holders = audit::holders(&direct)?;
            Ok(holders.iter().any(|holder| holder.owner.contains(&mark) && holder.lease_ms > 0))
        })?;
        child.pause()?;
        let taken = until("others that take over the partitions of a paused engine", || {
            Ok(audit::holders(&direct)?.iter().all(|holder| !holder.owner.contains(&mark)))
        });
        thread::sleep(extra);
        child.resume()?;
        taken
    }

    fn any_engine(&mut self) -> usize {
        let engines = self.engines.len();
        usize::try_from(self.below(engines as u64)).unwrap_or(0)
    }

    /// Waits until clients have some more acknowledgements.
    fn wait_for_progress(&mut self) -> anyhow::Result<()> {
        let before = self.clients.acknowledged()?;
        until("acknowledgements", || {
            self.engines.tend()?;
            Ok(self.clients.acknowledged()? >= before + PROGRESS)
        })
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.below(most_ms)));
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.random.bits() >> 8) % bound.max(1)
    }
}

/// Waits until no work is left, and audits. Faults that remain after the time limit are the result.
///
/// # Errors
/// The ledger or the store cannot be read.
pub fn settled(testbed: &Testbed, engines: &mut Engines, dir: &Path) -> anyhow::Result<Found> {
    let (ledger, direct) = (ledger::read(&dir.join("ledger.ndjson"))?, testbed.direct()?);
    let began = clock::now();
    loop {
        engines.tend()?;
        let found = audit::compare(&direct, &ledger)?;
        if found.is_whole() || clock::now().since(began) >= PATIENCE_NS {
            return Ok(found);
        }
        thread::sleep(AUDIT_EVERY);
    }
}

/// Waits until a condition holds.
///
/// # Errors
/// It does not hold in time.
pub fn until(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let began = clock::now();
    while !holds()? {
        if clock::now().since(began) >= PATIENCE_NS {
            bail!("timed out waiting for {what}, after {} s", PATIENCE_NS / SECOND_NS);
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
