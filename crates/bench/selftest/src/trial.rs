//! Runs a shipped scenario against an in-process server, without a run directory.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_deployment::Deployment;
use plimsoll_deployment::concern::Concerns;
use plimsoll_host::proxy::Proxy;
use plimsoll_ledger::{Allocation, Findings, Ledger, OtherWriters, Run, State, Touched};
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::Progress;
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_mongo::audit::{Audited, Scope, scan};
use plimsoll_mongo::setup::{Context as SetupContext, Copies, Setup};
use plimsoll_mongo::worker_ledger::WorkerLedger;
use plimsoll_wire::Address;

use plimsoll_run::injection::{self, Owned};
use plimsoll_scenario as scenario;
use plimsoll_scenario::Plan;
use plimsoll_systems::client_engine::ClientEngine;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a trial.
#[derive(Debug)]
pub struct Trial {
    /// The measurements.
    pub summary: Summary,
    setup: Arc<Setup>,
    deployment: Arc<Deployment>,
    ledger: Ledger,
}

/// Runs the shipped scenario `name` against the server at `address`.
///
/// # Errors
/// The scenario cannot be run.
pub fn run(name: &str, address: SocketAddr) -> anyhow::Result<Trial> {
    run_with(name, &[], address)
}

/// Runs the scenario with some of its values replaced.
///
/// # Errors
/// The scenario cannot be run.
pub fn run_with(name: &str, overrides: &[String], address: SocketAddr) -> anyhow::Result<Trial> {
    run_seeded(name, overrides, 1, address)
}

/// Runs the scenario with documents that follow from `seed`. If it has network faults, the load goes through
/// a proxy.
///
/// # Errors
/// The scenario cannot be run.
pub fn run_seeded(name: &str, overrides: &[String], seed: u64, address: SocketAddr) -> anyhow::Result<Trial> {
    run_on(name, overrides, seed, (address, Copies::One))
}

/// Runs the scenario as on a replica set: after a read at majority, no later read may return an older version.
///
/// # Errors
/// The scenario cannot be run.
pub fn run_as_replicated(name: &str, overrides: &[String], address: SocketAddr) -> anyhow::Result<Trial> {
    run_on(name, overrides, 1, (address, Copies::Several))
}

/// Runs the scenario as on a server that keeps this many copies of each document.
///
/// # Errors
/// The scenario cannot be run.
pub fn run_on(
    name: &str,
    overrides: &[String],
    seed: u64,
    (address, copies): (SocketAddr, Copies),
) -> anyhow::Result<Trial> {
    let loaded = scenario::load(name, overrides, Some(seed))?;
    let plan = Plan::build(&loaded)?;
    let run = Run { time_s: u32::try_from(clock::wall_ms() / 1000).unwrap_or(0), tag: [0x5e, 0x1f, 0x7e] };
    let context = SetupContext { seed, run, base: Path::new(".") };
    let mut setup = Setup::build(&loaded.scenario.section(), &plan.database(), context)?;
    setup.inherit(&Concerns::default(), copies);
    let setup = Arc::new(setup);
    let deployment = deployment(address);
    let proxies = proxies(&plan, address, seed)?;
    let route = proxies.first().map_or_else(|| deployment.clone(), |proxy| self::deployment(proxy.address()));
    let workers = u64::from(loaded.scenario.workers.unwrap_or(1));
    let allocation = Allocation::new(setup.block(), workers, None).context("allocate document numbers")?;
    let ledgers = (0..workers).map(|worker| WorkerLedger::new(allocation, worker, None)).collect();
    let mut engine =
        ClientEngine::new(&setup, std::slice::from_ref(&route), ledgers, Share::WHOLE, Spin::Off)?;
    let mut summary = Summary::new(plan.names(), plan.objective.clone());
    for phase in &plan.phases {
        let mut faults = faults(&plan, phase, &proxies);
        let finished = engine.run(phase, &Control::default(), &mut faults, |progress| {
            if let Progress::Second(second) = progress {
                summary.add(phase, &second);
            }
        })?;
        summary.end(phase, &finished, 0);
    }
    let mut ledger = Ledger::new(run, allocation);
    let closed = engine.close();
    ensure!(closed.len() as u64 == workers, "a worker did not return its ledger");
    closed.into_iter().for_each(|closed| ledger.adopt(closed.worker, closed.ledger));
    Ok(Trial { summary, setup, deployment, ledger })
}

fn deployment(address: SocketAddr) -> Arc<Deployment> {
    let address = Address { host: address.ip().to_string(), port: address.port() };
    Arc::new(Deployment::single(address, TIMEOUT))
}

/// Starts a proxy before the server if the scenario has network faults.
fn proxies(plan: &Plan, address: SocketAddr, seed: u64) -> anyhow::Result<Vec<Arc<Proxy>>> {
    if plan.phases.iter().all(|phase| phase.faults.is_empty()) {
        return Ok(Vec::new());
    }
    Ok(vec![Arc::new(Proxy::start(address, seed).context("start a proxy")?)])
}

fn faults(plan: &Plan, phase: &Phase, proxies: &[Arc<Proxy>]) -> Vec<Box<dyn Fault>> {
    let planned = phase.faults.iter().filter_map(|planned| plan.injections.get(planned.key));
    planned.filter_map(|aimed| injection::tie(&aimed.fault, None::<&Owned>, proxies)).collect()
}

impl Trial {
    /// Reads everything back.
    ///
    /// # Errors
    /// The server cannot be read.
    pub fn audit(&self) -> anyhow::Result<Findings> {
        Ok(self.audit_copies()?.findings)
    }

    /// Reads everything back, also from the members and shards behind the server.
    ///
    /// # Errors
    /// The server cannot be read.
    pub fn audit_copies(&self) -> anyhow::Result<Audited> {
        let runtime = plimsoll_run::lifecycle::runtime()?;
        let touched = self.ledger.changes().map_or(&Touched::All, |changes| &changes.touched);
        let scope = Scope::of(&self.setup, touched, OtherWriters::Excluded);
        let servers = [self.deployment.options()];
        Ok(runtime.block_on(scan(&servers, &self.ledger, scope, &mut ()))?)
    }

    /// Whether a document of this run was acknowledged.
    pub fn is_acknowledged(&self, id: [u8; 12]) -> bool {
        self.setup.run.number(&id).is_some_and(|number| self.ledger.state(number) == State::Acknowledged)
    }

    /// The `_id` of a document.
    pub fn id(&self, number: u64) -> [u8; 12] {
        self.setup.run.receipt(number).to_object_id()
    }
}
