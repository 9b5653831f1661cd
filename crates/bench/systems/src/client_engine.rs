//! Runs the load engine with the client that the scenario names.

use std::io;
use std::sync::Arc;

use plimsoll_deployment::Deployment;
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Engine, Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::Instant;
use plimsoll_measure::run::ServerShare;
use plimsoll_mongo::driver::Driver;
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::operation_builder::OperationBuilder;
use plimsoll_mongo::scenario::Client;
use plimsoll_mongo::setup::Setup;
use plimsoll_mongo::shared_bounds::SharedBounds;
use plimsoll_mongo::snapshot::Snapshot;
use plimsoll_mongo::spread::Spread;
use plimsoll_mongo::worker_ledger::{Closed, WorkerLedger};

/// The workers and their targets.
#[derive(Debug)]
pub enum ClientEngine {
    /// Uses the lean client of Plimsoll.
    Lean(Engine<Lean>),
    /// Uses the lean client on several servers.
    Spread(Engine<Spread>),
    /// Uses the official driver.
    Driver(Engine<Driver>),
}

impl ClientEngine {
    /// Starts one worker for each ledger in `ledgers`, on one deployment or on several independent ones.
    ///
    /// # Errors
    /// When the operating system has no file descriptor left.
    pub fn new(
        setup: &Arc<Setup>,
        deployments: &[Arc<Deployment>],
        ledgers: Vec<WorkerLedger>,
        shard: Share,
        spin: Spin,
    ) -> io::Result<Self> {
        let operations = setup.commands.len();
        let mut ledgers = ledgers;
        if deployments.len() == 1 && ledgers.len() > 1 {
            let shared = Arc::<SharedBounds>::default();
            ledgers.iter_mut().for_each(|ledger| ledger.share(shared.clone()));
        }
        let ledgers = ledgers.into_iter();
        let deployment =
            deployments.first().ok_or_else(|| io::Error::other("there is no server to send to"))?;
        match setup.client {
            Client::Lean if deployments.len() > 1 => {
                let targets = ledgers.map(|ledger| Arc::new(Spread::new(setup.clone(), deployments, ledger)));
                Ok(Self::Spread(Engine::new(targets.collect(), operations, shard, spin)?))
            }
            Client::Lean => {
                let targets =
                    ledgers.map(|ledger| Arc::new(Lean::new(setup.clone(), deployment.clone(), ledger)));
                Ok(Self::Lean(Engine::new(targets.collect(), operations, shard, spin)?))
            }
            Client::Driver => {
                let targets =
                    ledgers.map(|ledger| Arc::new(Driver::new(setup.clone(), deployment.clone(), ledger)));
                Ok(Self::Driver(Engine::new(targets.collect(), operations, shard, spin)?))
            }
        }
    }

    /// Schedules the start of the next phase.
    pub fn begin_at(&mut self, at: Instant) {
        match self {
            Self::Lean(engine) => engine.begin_at(at),
            Self::Spread(engine) => engine.begin_at(at),
            Self::Driver(engine) => engine.begin_at(at),
        }
    }

    /// Runs a phase.
    ///
    /// # Errors
    /// When the phase cannot be run at all.
    pub fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: impl FnMut(Progress),
    ) -> Result<Finished, RunError> {
        self.introduce();
        match self {
            Self::Lean(engine) => engine.run(phase, control, faults, sink),
            Self::Spread(engine) => engine.run(phase, control, faults, sink),
            Self::Driver(engine) => engine.run(phase, control, faults, sink),
        }
    }

    /// Passes a snapshot of all documents to every worker, so that a phase can use the documents of other workers.
    fn introduce(&self) {
        let builders = self.builders();
        if !builders.iter().any(|builder| builder.setup.names_receipts()) {
            return;
        }
        let known =
            Arc::new(Snapshot::of(builders.iter().map(|builder| builder.ledger().documents()).collect()));
        builders.iter().for_each(|builder| builder.ledger().learn(known.clone()));
    }

    fn builders(&self) -> Vec<&OperationBuilder> {
        match self {
            Self::Lean(engine) => engine.targets().map(Lean::builder).collect(),
            Self::Spread(engine) => engine.targets().map(Spread::builder).collect(),
            Self::Driver(engine) => engine.targets().map(Driver::builder).collect(),
        }
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        match self {
            Self::Lean(engine) => engine.connections(),
            Self::Spread(engine) => engine.connections(),
            Self::Driver(engine) => engine.connections(),
        }
    }

    /// Each server's share of the load.
    pub fn shares(&self) -> Vec<ServerShare> {
        let Self::Spread(engine) = self else { return Vec::new() };
        let mut all: Vec<ServerShare> = Vec::new();
        for shares in engine.targets().map(Spread::shares) {
            if all.is_empty() {
                all = shares;
            } else {
                all.iter_mut().zip(&shares).for_each(|(sum, part)| sum.merge(part));
            }
        }
        all
    }

    /// Ends the workers and returns their ledgers.
    pub fn close(self) -> Vec<Closed> {
        match self {
            Self::Lean(engine) => engine
                .into_targets()
                .into_iter()
                .filter_map(Arc::into_inner)
                .filter_map(Lean::close)
                .collect(),
            Self::Spread(engine) => {
                let targets = engine.into_targets().into_iter().filter_map(Arc::into_inner);
                targets.filter_map(Spread::close).collect()
            }
            Self::Driver(engine) => {
                engine.into_targets().into_iter().filter_map(Arc::into_inner).map(Driver::close).collect()
            }
        }
    }
}
