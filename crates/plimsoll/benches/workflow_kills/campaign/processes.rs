//! Compares one, two and four processes on one store: the rate, each process's share of the work, and the fail-over after kill -9.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use plimsoll_measure::clock::{self, SECOND_NS};
use plimsoll_measure::duration::Span;
use plimsoll_workflow::port::Holder;

use super::audit::{self, Found, PARTITIONS};
use super::clients::Clients;
use super::engine::Engines;
use super::http::Http;
use super::kind::Backend;
use super::ledger::Ledger;
use super::round::{settled, until};
use super::testbed::Testbed;

/// The counter of instances that ended in a process.
const ENDED: &str = "plimsoll_workflow_instances_stopped_total{status=\"done\"} ";

/// The options of the comparison.
pub struct Comparison {
    /// The compared numbers of processes.
    pub processes: Vec<usize>,
    /// The length of each load.
    pub load: Duration,
    /// The number of client threads.
    pub clients: usize,
    /// The turns for each number of processes.
    pub rounds: u32,
    /// The length of the leases.
    pub lease: Span,
    /// The stores.
    pub stores: Vec<Backend>,
    /// The directory of ledgers and logs.
    pub out: PathBuf,
}

/// The result of one turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Acknowledged requests a second.
    pub requests_per_s: f64,
    /// Ended instances a second, over all processes.
    pub ends_per_s: f64,
    /// Ended instances of each process.
    pub ended: Vec<u64>,
    /// Partitions of each process at the beginning of the load.
    pub partitions: Vec<usize>,
    /// From kill -9 of a process until others held all its partitions; none with a single process.
    pub failover_s: Option<f64>,
    /// The audit after the fail-over.
    pub found: Found,
}

/// Runs all turns, and alternates the numbers of processes.
///
/// # Errors
/// A server or a process does not start, or a request is never acknowledged.
pub fn compare(comparison: &Comparison) -> anyhow::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    for round in 0..comparison.rounds {
        for backend in &comparison.stores {
            let mut numbers = comparison.processes.clone();
            numbers.rotate_left(round as usize % comparison.processes.len().max(1));
            for processes in numbers {
                let name = format!("processes-{}-{processes}-{round}", backend.name());
                let turn = turn(comparison, *backend, processes, &comparison.out.join(name))?;
                println!("round {round} {} {processes} processes: {}", backend.name(), turn.line());
                turns.push(turn);
            }
        }
    }
    Ok(turns)
}

impl Turn {
    /// Whether the work was shared and nothing was lost.
    pub fn holds(&self) -> bool {
        self.is_shared() && self.found.is_whole()
    }

    /// Whether each process held partitions and ended instances.
    fn is_shared(&self) -> bool {
        self.ended.iter().all(|ended| *ended > 0) && self.partitions.iter().all(|held| *held > 0)
    }

    fn line(&self) -> String {
        let failover = self.failover_s.map_or("-".to_owned(), |seconds| format!("{seconds:.2} s"));
        format!(
            "{:.0} requests/s, {:.0} ends/s, ended {:?}, partitions {:?}, fail-over {failover}, {}",
            self.requests_per_s,
            self.ends_per_s,
            self.ended,
            self.partitions,
            if self.found.is_whole() { "nothing lost" } else { "NOT WHOLE" },
        )
    }
}

/// Runs one turn in a directory.
fn turn(comparison: &Comparison, backend: Backend, processes: usize, dir: &Path) -> anyhow::Result<Turn> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let testbed = Testbed::start(backend, 1)?;
    let direct = testbed.direct()?;
    audit::prepare(&direct)?;
    let mut engines = Engines::start_services(processes, &direct, comparison.lease, dir)?;
    let pids = engines.pids();
    until("partitions for each process", || {
        engines.tend()?;
        Ok(shares(&audit::holders(&direct)?, &pids).is_some())
    })?;
    let partitions = shares(&audit::holders(&direct)?, &pids).unwrap_or_default();
    let ledger = Ledger::create(&dir.join("ledger.ndjson"))?;
    let clients = Clients::start(comparison.clients, &engines.services, ledger)?;
    let (began, first, before) = (clock::now(), clients.acknowledged()?, ended(&engines)?);
    thread::sleep(comparison.load);
    let (requests, after) = (clients.acknowledged()? - first, ended(&engines)?);
    let took_s = clock::now().since(began) as f64 / SECOND_NS as f64;
    let failover_s =
        (processes > 1).then(|| failover(&mut engines, || audit::holders(&direct))).transpose()?;
    clients.finish()?;
    let ended: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok(Turn {
        requests_per_s: requests as f64 / took_s,
        ends_per_s: ended.iter().sum::<u64>() as f64 / took_s,
        ended,
        partitions,
        failover_s,
        found: settled(&testbed, &mut engines, dir)?,
    })
}

/// Kills the first process under load, and waits until others hold all partitions. Then it starts again.
fn failover(engines: &mut Engines, holders: impl Fn() -> anyhow::Result<Vec<Holder>>) -> anyhow::Result<f64> {
    let mark = format!("-{}-", engines.engine(0).child().pid());
    engines.engine(0).child().kill()?;
    let began = clock::now();
    until("others that take over the partitions of a killed process", || {
        Ok(holders()?.iter().all(|holder| !holder.owner.contains(&mark)))
    })?;
    let took_s = clock::now().since(began) as f64 / SECOND_NS as f64;
    engines.engine(0).again()?;
    Ok(took_s)
}

/// The partitions of each process; none while a partition is free or a process has less than its share.
fn shares(holders: &[Holder], pids: &[u32]) -> Option<Vec<usize>> {
    let live = |pid: u32| {
        let mark = format!("-{pid}-");
        let mine = holders.iter().filter(|holder| holder.lease_ms > 0 && holder.owner.contains(&mark));
        mine.map(|holder| holder.partition).collect::<BTreeSet<_>>().len()
    };
    let counts: Vec<_> = pids.iter().map(|pid| live(*pid)).collect();
    let least = usize::from(PARTITIONS) / pids.len().max(1);
    let is_shared = counts.iter().sum::<usize>() == usize::from(PARTITIONS);
    (is_shared && counts.iter().all(|count| *count >= least)).then_some(counts)
}

/// The instances that ended in each process.
fn ended(engines: &Engines) -> anyhow::Result<Vec<u64>> {
    let read = |address| {
        let page = Http::of(&[address], 0).get("/metrics")?;
        let value = page.lines().find_map(|line| line.strip_prefix(ENDED));
        Ok(value.context("find the counter of ended instances")?.trim().parse()?)
    };
    engines.services.iter().map(|address| read(*address)).collect()
}
