//! Puts a database under load: MongoDB, or a server that speaks its protocol. Proves its writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use plimsoll_deployment::collection::{self, InitialState};
use plimsoll_deployment::inspect::brief;
use plimsoll_deployment::pool_options;
use plimsoll_ledger::{Allocation, Run as RunId};
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::clock_offset::ServerClock;
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::inspection::Collection;
use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::run::ServerShare;
use plimsoll_mongo::audit::Listener;
use plimsoll_mongo::journal_writer::JournalWriter;
use plimsoll_mongo::scenario::{Client, Connections};
use plimsoll_mongo::setup::{Context as SetupContext, Copies, Setup};
use plimsoll_mongo::sharding;
use plimsoll_wire::{ConnectOptions, Connection};
use tokio::runtime::Runtime;

use crate::audit::{Subject, audit};
use crate::calibration;
use crate::client_engine::ClientEngine;
use crate::consistency;
use crate::promise::Promise;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::injection;
use plimsoll_run::server_provenance::HostedAs;
use plimsoll_run::server_provisioning::RunningServer;
use plimsoll_run::system::{Replay, RunContext, System, Workers};
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod ledger_session;
mod probe;

use ledger_session::{Promised, gather};
use probe::{Probed, probe};

/// A database under load.
#[derive(Debug)]
pub struct Database {
    place: RunningServer,
    setup: Arc<Setup>,
    facts: ServerFacts,
    workers: Workers,
    allocation: Allocation,
    /// Whether every document of the run can be distinguished from foreign ones: the run has no other shards, or shares its ID
    /// with them.
    knows_all: bool,
    /// The collection before the run.
    before: InitialState,
    inspected: (Option<Collection>, Option<Collection>),
    runtime: Runtime,
    engine: Option<ClientEngine>,
    journal: Option<JournalWriter>,
    promised: Option<Promised>,
    /// The reason why appends to lists have no transactions; `None` if they have transactions.
    without_transactions: Option<String>,
    /// The guarantee for appends to lists.
    promise: Promise,
}

/// The documents and commands of a scenario, compiled for one run.
///
/// # Errors
/// When the documents or commands are invalid.
pub fn compile(loaded: &Loaded, plan: &Plan, run: RunId) -> anyhow::Result<Setup> {
    let setup = Setup::build(&loaded.scenario.section(), &plan.database(), setup_context(loaded, run))?;
    if let Some(typed) = &loaded.scenario.shard {
        sharding::Plan::build(typed, &setup, plan.documents(), setup_context(loaded, run))?;
    }
    Ok(setup)
}

fn setup_context(loaded: &Loaded, run: RunId) -> SetupContext<'_> {
    SetupContext { seed: loaded.scenario.seed, run, base: &loaded.base }
}

/// Refuses read preferences that the client cannot honour on these servers.
fn check_reads(setup: &Setup, place: &RunningServer) -> anyhow::Result<()> {
    let chosen = setup.read_preferences();
    let Some(first) = chosen.first() else { return Ok(()) };
    let has_members = place.all().any(|place| place.deployment.has_members());
    let has_proxies = place.all().any(|place| !place.proxies.is_empty());
    ensure!(
        !has_members || place.others.is_empty(),
        "read_preference: {} selects among the members of one replica set; give one server, or leave it out",
        first.mode.name()
    );
    ensure!(
        !has_members || !has_proxies,
        "faults: a network fault disturbs the way to the primary only, and read_preference: {} reads elsewhere; leave out one of \
         the two",
        first.mode.name()
    );
    let limits_lag = chosen.iter().any(|preference| preference.max_staleness_s.is_some());
    ensure!(
        !has_members || !limits_lag || setup.client == Client::Driver,
        "read_preference: max_staleness needs a client that watches the members' lag; use client: driver, or leave it out"
    );
    Ok(())
}

/// Refuses to check a part of a history.
fn check_shard(setup: &Setup, shard: Share) -> anyhow::Result<()> {
    ensure!(
        shard == Share::WHOLE || !setup.appends_to_lists(),
        "--shard: the history of list_append is checked in one process; leave out --shard"
    );
    Ok(())
}

impl Database {
    /// Queries the server's facts, and prepares the collection. Sends nothing of the load yet.
    ///
    /// # Errors
    /// When the scenario is invalid, the server cannot be reached, or it refuses a command.
    pub fn open(context: RunContext<'_>, place: RunningServer, runtime: Runtime) -> Outcome<Self> {
        let mut setup = compile(context.loaded, context.plan, context.run).deserves(Exit::Usage)?;
        // The URIs of all servers name the same concerns: `check::concerns` refuses others.
        let concerns = place.deployment.concerns().clone();
        setup.inherit(&concerns, Copies::Several);
        check_reads(&setup, &place).deserves(Exit::Usage)?;
        check_shard(&setup, context.shard).deserves(Exit::Usage)?;
        let workers = Workers::of(context, !place.pids().is_empty());
        let Probed { facts, before, copies } = runtime.block_on(probe(&place, &setup, context.loaded))?;
        setup.inherit(&concerns, copies);
        let without_transactions = match setup.appends_in_transactions() {
            true => runtime
                .block_on(consistency::without_transactions(&setup, &place.deployment.options()))
                .deserves(Exit::Server)?,
            false => None,
        };
        if without_transactions.is_some() {
            setup.append_without_transactions();
        }
        let promise = Promise::of(&setup, copies).deserves(Exit::Usage)?;
        let setup = Arc::new(setup);
        let workers_all = context.shard.of * workers.count as u64;
        let allocation =
            Allocation::new(setup.block(), workers_all, None).context("allocate document numbers")?;
        Ok(Self {
            place,
            setup,
            facts,
            workers,
            allocation,
            knows_all: context.shard == Share::WHOLE,
            before,
            inspected: (None, None),
            runtime,
            engine: None,
            journal: None,
            promised: None,
            without_transactions,
            promise,
        })
    }

    /// Shards the collection as the scenario defines. Reports every command to `tell` before it is sent.
    fn shard(&self, context: RunContext<'_>, tell: &mut dyn FnMut(String)) -> Outcome<()> {
        let Some(typed) = &context.loaded.scenario.shard else { return Ok(()) };
        let documents = context.plan.documents();
        let setup_context = setup_context(context.loaded, context.run);
        let plan = sharding::Plan::build(typed, &self.setup, documents, setup_context);
        let plan = plan.deserves(Exit::Usage)?;
        self.runtime.block_on(async {
            let mut connection =
                Connection::connect(&self.place.deployment.options()).await.deserves(Exit::Server)?;
            let done = sharding::apply(&mut connection, &plan, tell).await;
            let usage = matches!(done, Err(sharding::Error::NoMongos(_)));
            done.deserves(if usage { Exit::Usage } else { Exit::Server })
        })
    }

    /// The server's statistics of the collection. `None` if it cannot be queried.
    fn inspect(&self) -> Option<Collection> {
        self.runtime.block_on(async {
            let mut connection = Connection::connect(&self.place.deployment.options()).await.ok()?;
            brief(&mut connection, &self.setup.namespace).await.ok()
        })
    }
}

impl System for Database {
    fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    fn hosted_as(&mut self, hosted: &HostedAs) {
        hosted.tell(&mut self.facts);
    }

    fn workers(&self) -> Workers {
        self.workers
    }

    fn client(&self) -> &'static str {
        self.setup.client.name()
    }

    /// The official driver does not report its bytes.
    fn tells_bytes(&self) -> bool {
        self.setup.client == Client::Lean
    }

    fn collections(&self) -> Vec<String> {
        vec![self.setup.namespace.to_string()]
    }

    fn pids(&self) -> Vec<u32> {
        self.place.pids()
    }

    fn observed(&self) -> Option<ConnectOptions> {
        Some(self.place.deployment.options())
    }

    fn begin(&mut self, context: RunContext<'_>, ledger: &Path, tell: &mut dyn FnMut(String)) -> Outcome<()> {
        if let Some(reason) = &self.before.vanishing {
            tell(format!("{reason}: integrity cannot be shown"));
        }
        for server in self.place.all() {
            let (pool, load) = (pool_options(server.deployment.uri()), context.plan.connections());
            Connections::without_effect(self.setup.client, &pool, load).into_iter().for_each(&mut *tell);
        }
        let deployment = &self.place.deployment;
        let chosen = self.setup.read_preferences();
        if let Some(preference) =
            chosen.first().filter(|_| !deployment.has_members() && !deployment.has_routers())
        {
            let mode = preference.mode.name();
            tell(format!("read_preference {mode}: the address names one server, so every read goes to it"));
        }
        self.without_transactions.iter().cloned().for_each(&mut *tell);
        self.shard(context, tell)?;
        self.inspected.0 = self.inspect();
        self.hire(context, ledger)
    }

    /// Creates the indexes of the phase on every server, and reports the time taken.
    fn prepare(&mut self, plan: &Plan, phase: usize, tell: &mut dyn FnMut(String)) -> Outcome<()> {
        let keys = plan.indexes.get(phase).cloned().unwrap_or_default();
        if keys.is_empty() {
            return Ok(());
        }
        let began = clock::now();
        self.runtime.block_on(async {
            for place in self.place.all() {
                // An index over much data takes time; the configured time limit is for operations.
                let options = ConnectOptions { timeout: None, ..place.deployment.options() };
                let mut connection = Connection::connect(&options).await.deserves(Exit::Server)?;
                let made = collection::create_indexes(&mut connection, &self.setup.namespace, &keys).await;
                made.context("make indexes").deserves(Exit::Server)?;
            }
            Outcome::Ok(())
        })?;
        let took_s = clock::now().since(began) as f64 / 1e9;
        tell(format!("made {} indexes in {took_s:.2} s", keys.len()));
        Ok(())
    }

    fn faults(&self, plan: &Plan, phase: &Phase) -> Vec<Box<dyn Fault>> {
        let injections = phase.faults.iter().filter_map(|planned| plan.injections.get(planned.key));
        let tied = injections.filter_map(|aimed| {
            let place = self.place.all().nth(aimed.server)?;
            injection::tie(&aimed.fault, place.server.as_ref(), &place.proxies)
        });
        tied.collect()
    }

    fn begin_at(&mut self, at: Instant) {
        self.knows_all = true;
        self.engine.iter_mut().for_each(|engine| engine.begin_at(at));
    }

    fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError> {
        let Some(engine) = &mut self.engine else { return Ok(Finished::default()) };
        engine.run(phase, control, faults, sink)
    }

    fn connections(&self) -> usize {
        self.engine.as_ref().map_or(0, ClientEngine::connections)
    }

    fn shares(&self) -> Vec<ServerShare> {
        self.engine.as_ref().map(ClientEngine::shares).unwrap_or_default()
    }

    fn ping_ns(&self) -> Option<u64> {
        self.runtime.block_on(calibration::ping_ns(&self.place.deployment.options()))
    }

    fn server_clock(&self) -> Option<ServerClock> {
        let options = self.place.deployment.options();
        let clock = self.runtime.block_on(calibration::server_clock(&options))?;
        Some(ServerClock { address: self.facts().addresses.first()?.clone(), ..clock })
    }

    fn ceiling(&self, phase: &Phase, control: &Control) -> anyhow::Result<(f64, f64)> {
        calibration::ceiling(&self.setup, phase, self.place.all().count(), self.workers.count, control)
    }

    fn floor(&self, replay: &Replay<'_>, control: &Control) -> anyhow::Result<Latency> {
        calibration::floor(&self.setup, replay, (self.place.all().count(), self.workers.count), control)
    }

    fn close(&mut self, ledger: &Path) -> anyhow::Result<()> {
        let closed = self.engine.take().map(ClientEngine::close).unwrap_or_default();
        let kept = self.journal.take().map_or(Ok(()), JournalWriter::close);
        // Without the ledger of a worker, its documents would look as if they were never sent.
        anyhow::ensure!(
            closed.len() == self.workers.count,
            "the ledger of a worker is missing: this is a bug in Plimsoll, please report it"
        );
        let promised = gather(self.ledger(&closed), closed);
        kept.context("keep the ledger")?;
        plimsoll_ledger::save(ledger, &promised.ledger).context("save the ledger")?;
        self.promised = Some(promised);
        Ok(())
    }

    fn audit(
        &mut self,
        patience: Duration,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Option<Integrity> {
        let history = std::mem::take(&mut self.promised.as_mut()?.history);
        let Promised { ledger, touched, .. } = self.promised.as_ref()?;
        let counts = ledger.counts();
        let expected = counts.acknowledged + counts.unknown;
        progress(0, expected);
        let subject = Subject {
            setup: &self.setup,
            servers: self.place.all().map(|place| place.deployment.options()).collect(),
            is_direct: self.place.all().any(|place| place.deployment.is_direct()),
            patience,
            ledger,
            touched,
            other_writers: self.other_writers(),
            before: &self.before,
        };
        let mut integrity = audit(&subject, &self.runtime, &mut Watched { progress, expected });
        if self.setup.appends_to_lists() {
            let server = self.place.deployment.options();
            let promise = (self.promise, self.without_transactions.as_deref());
            let checked = consistency::checked(&self.setup, &server, history, &self.runtime, promise);
            integrity.consistency = Some(checked.found);
            // The documents of the lists have ids other than receipts.
            integrity.foreign = integrity.foreign.saturating_sub(checked.documents);
            if checked.undecided.is_some() {
                (integrity.proof, integrity.reason) = (Proof::NotAudited, checked.undecided);
            }
        }
        self.inspected.1 = self.inspect();
        Some(integrity)
    }

    fn inspections(&self) -> (Option<Collection>, Option<Collection>) {
        self.inspected.clone()
    }

    fn keep(self: Box<Self>, run: &Path) -> anyhow::Result<bool> {
        self.place.keep(run)
    }
}

/// Reports the progress of an audit.
struct Watched<'a> {
    progress: &'a mut (dyn FnMut(u64, u64) + Send),
    expected: u64,
}

impl Listener for Watched<'_> {
    fn read(&mut self, documents: u64) {
        (self.progress)(documents, self.expected);
    }
}
