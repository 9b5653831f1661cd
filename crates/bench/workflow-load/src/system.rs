//! Puts the workflow engine under load, and proves that it lost nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use plimsoll_load::engine::{Engine, Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{Instant, now};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::inspection::Collection;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::ServerShare;
use plimsoll_measure::workflow::{StoreCalls, Workflow};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provenance::HostedAs;
use plimsoll_run::session::id;
use plimsoll_run::system::{Replay, RunContext, System, Workers};
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Begin, Existing, Store as Kind, Workflow as Section};
use plimsoll_wire::ConnectOptions;
use plimsoll_workflow::port::{Find, Store};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::audit::{Audited, Promises, audit};
use crate::client::receiver;
use crate::counters::{self, Totals};
use crate::embedded::{BACKLOG_MAX, Embedded};
use crate::ledger::{Fate, latencies};
use crate::store_server::StoreServer;
use crate::target::{Instances, Shared};
use crate::work::{Part, Work};

/// The time after which a process of PostgreSQL reports its counts.
const REPORTED: Duration = Duration::from_millis(1_100);
/// The time between two checks of the remaining work.
const LOOK: Duration = Duration::from_millis(2);
/// The time without progress after which a drain is given up.
const STALLED: Duration = Duration::from_secs(5);
/// Finds one instance, to check whether the store holds any.
const NONE: Find = Find { key: None, status: None, definition: None, after: None, limit: 1 };

/// The engine under load, inside of this process.
#[derive(Debug)]
pub(crate) struct WorkflowSystem<S: Store> {
    section: Section,
    facts: ServerFacts,
    workers: Workers,
    load: Engine<Instances<S>>,
    shared: Arc<Shared<S>>,
    /// The engine's threads. They end before the database does.
    threads: Runtime,
    server: StoreServer,
    figures: Figures,
}

/// The measurements in addition to those of every load.
#[derive(Debug, Default)]
struct Figures {
    /// The totals and the calls before the load.
    before: Option<(Totals, Calls)>,
    /// The growth of the totals, and the calls of the load.
    grown: (Totals, Calls),
    backlog: u64,
    drain_s: Option<f64>,
    audited: Audited,
}

type Calls = BTreeMap<String, StoreCalls>;

/// The parts of a system that is opened.
pub(crate) struct Opened<'a> {
    /// The run.
    pub(crate) context: RunContext<'a>,
    /// Its section.
    pub(crate) section: &'a Section,
    /// The database.
    pub(crate) server: StoreServer,
    /// The database's facts.
    pub(crate) facts: ServerFacts,
    /// The engine's threads.
    pub(crate) threads: Runtime,
}

/// The engine's threads: one for each worker, and no more than cores.
///
/// # Errors
/// When the operating system has no file descriptor left.
pub(crate) fn threads(section: &Section) -> anyhow::Result<Runtime> {
    let cores = plimsoll_host::machine::cores() as usize;
    let count = (section.workers as usize).clamp(1, cores.max(1));
    Builder::new_multi_thread()
        .worker_threads(count)
        .enable_all()
        .build()
        .context("start the engine's threads")
}

impl<S: Store> WorkflowSystem<S> {
    /// Prepares the engine on its store.
    ///
    /// # Errors
    /// When the store refuses, or holds instances already.
    pub(crate) fn open(opened: Opened<'_>, store: S) -> Outcome<Self> {
        let Opened { context, section, server, mut facts, threads } = opened;
        // The engine sends a write concern with every write.
        facts.default_write_concern = None;
        let run = id(context.run);
        let found = threads.block_on(store.find(&NONE)).deserves(Exit::Server)?;
        check_empty(!found.is_empty(), section, context).deserves(Exit::Usage)?;
        let works = works(context).deserves(Exit::Usage)?;
        let definitions: Vec<_> = works.iter().flat_map(|work| work.definitions.clone()).collect();
        let owners = (0..section.workers).map(|worker| format!("{run}-worker-{worker}")).collect();
        // A backlog that no worker may work off yet is the load.
        let backlog_max = if section.begin == Begin::AfterLoad { usize::MAX } else { BACKLOG_MAX };
        let engine = threads
            .block_on(Embedded::prepare(store, section.mode, owners, &definitions, backlog_max))
            .context("prepare the workflow engine")
            .deserves(Exit::Server)?;
        let limit = Duration::from_nanos(context.loaded.scenario.timeout.as_ns());
        let shared = Arc::new(Shared { engine, works, run, limit, is_lost: AtomicBool::new(false) });
        let workers = Workers::of(context, server.is_local());
        let targets = (0..workers.count as u64)
            .map(|thread| Arc::new(Instances::new(shared.clone(), thread, threads.handle().clone())));
        let load = Engine::new(targets.collect(), context.plan.operations.len(), context.shard, workers.spin);
        let load = load.context("start the clients")?;
        let figures = Figures::default();
        Ok(Self { section: section.clone(), facts, workers, load, shared, threads, server, figures })
    }

    /// Starts the instances that receive signals.
    async fn receivers(shared: &Shared<S>) -> Outcome<()> {
        for (operation, work) in shared.works.iter().enumerate() {
            let Part::Deliver { receivers, .. } = work.part else { continue };
            for number in 0..u64::from(receivers) {
                let id = receiver(&shared.run, operation, number);
                let started = shared.engine.begin_instance(work.name(), &id).await;
                started.context("start a receiver").deserves(Exit::Server)?;
            }
        }
        Ok(())
    }

    fn calls(&self) -> Calls {
        let calls = self.shared.engine.store().calls().into_iter();
        calls.map(|(name, calls)| (name.to_owned(), calls)).collect()
    }

    /// The database's counters now.
    fn totals(&self) -> Totals {
        let store = self.shared.engine.store();
        self.threads.block_on(async {
            if matches!(self.server, StoreServer::Postgres { .. }) {
                // A process of PostgreSQL reports its counts with a statement, at most once a second.
                sleep(REPORTED).await;
                join_all((0..self.section.connections).map(|_| store.deployed())).await;
            }
            counters::read(&self.server).await
        })
    }

    /// Records the counters before the first load.
    fn note_before(&mut self) {
        if self.figures.before.is_none() {
            self.figures.before = Some((self.totals(), self.calls()));
        }
    }

    fn note_after(&mut self) {
        let after = self.totals();
        let Some((totals, calls)) = &self.figures.before else { return };
        let since = |(name, now): (String, StoreCalls)| {
            let before = calls.get(&name).copied().unwrap_or_default();
            (name, now.since(before))
        };
        let calls = self.calls().into_iter().map(since).filter(|(_, calls)| calls.calls > 0).collect();
        self.figures.grown = (counters::growth(totals, &after), calls);
    }

    /// Measures the time until the engine has no work left.
    fn drain(&mut self) {
        let receivers = self.shared.works.iter().map(|work| match work.part {
            Part::Deliver { receivers, .. } => i64::from(receivers),
            _ => 0,
        });
        let standing = receivers.sum();
        let left = self.shared.engine.store().open() - standing;
        self.figures.backlog = u64::try_from(left).unwrap_or(0);
        if self.section.begin == Begin::AfterLoad {
            self.shared.engine.begin(self.threads.handle());
        }
        self.figures.drain_s = self.threads.block_on(drained(&self.shared, standing));
    }
}

/// The seconds until at most `standing` instances are open and no signal is left. `None` without progress.
async fn drained<S: Store>(shared: &Shared<S>, standing: i64) -> Option<f64> {
    let store = shared.engine.store();
    let (began, mut changes, mut progress) = (now(), 0, now());
    loop {
        let open = store.open() - standing;
        if open <= 0 && store.has_signals().await == Ok(false) {
            return Some(now().since(began) as f64 / 1e9);
        }
        // Instances of many steps may all change long before the first one ends.
        if store.changes() > changes {
            (changes, progress) = (store.changes(), now());
        }
        if u128::from(now().since(progress)) > STALLED.as_nanos() {
            return None;
        }
        sleep(LOOK).await;
    }
}

/// The units of a plan.
///
/// # Errors
/// When a definition cannot be read.
pub(crate) fn works(context: RunContext<'_>) -> anyhow::Result<Vec<Work>> {
    let units = context.plan.units();
    units.iter().map(|(_, unit)| Work::build(unit, &context.loaded.base)).collect()
}

/// Refuses a store with instances of others, unless the scenario allows them.
fn check_empty(is_used: bool, section: &Section, context: RunContext<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(
        !is_used || context.loaded.scenario.existing == Existing::Append,
        "the {} store holds instances already: name another database{}, or use `existing: append`, and the engine works on them too",
        section.store.name(),
        if section.store == Kind::Mongodb { " in `workflow.database`" } else { " in the URI" }
    );
    Ok(())
}

impl<S: Store + std::fmt::Debug> System for WorkflowSystem<S> {
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
        "workflow engine"
    }

    fn tells_bytes(&self) -> bool {
        false
    }

    fn collections(&self) -> Vec<String> {
        Vec::new()
    }

    fn pids(&self) -> Vec<u32> {
        self.server.pids()
    }

    fn observed(&self) -> Option<ConnectOptions> {
        self.server.observed()
    }

    fn begin(&mut self, _: RunContext<'_>, _: &Path, _: &mut dyn FnMut(String)) -> Outcome<()> {
        if self.section.begin == Begin::BeforeLoad {
            self.shared.engine.begin(self.threads.handle());
        }
        self.threads.block_on(Self::receivers(&self.shared))
    }

    fn prepare(&mut self, _: &Plan, _: usize, _: &mut dyn FnMut(String)) -> Outcome<()> {
        Ok(())
    }

    fn faults(&self, plan: &Plan, phase: &Phase) -> Vec<Box<dyn Fault>> {
        let injections = phase.faults.iter().filter_map(|planned| plan.injections.get(planned.key));
        injections.filter_map(|aimed| self.server.tie(&aimed.fault)).collect()
    }

    fn begin_at(&mut self, at: Instant) {
        self.load.begin_at(at);
    }

    fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError> {
        self.note_before();
        let finished = self.load.run(phase, control, faults, sink);
        self.drain();
        finished
    }

    fn connections(&self) -> usize {
        self.section.connections as usize
    }

    fn shares(&self) -> Vec<ServerShare> {
        Vec::new()
    }

    /// The round trip of the smallest request to the store.
    fn ping_ns(&self) -> Option<u64> {
        let began = now();
        let found = self.threads.block_on(self.shared.engine.store().deployed());
        found.is_ok().then(|| now().since(began))
    }

    /// Unknown: the engine is a part of this process, so no other store shows the tool alone.
    fn ceiling(&self, _: &Phase, _: &Control) -> anyhow::Result<(f64, f64)> {
        Ok((0.0, 0.0))
    }

    /// Unknown, as the ceiling is.
    fn floor(&self, _: &Replay<'_>, _: &Control) -> anyhow::Result<Latency> {
        Ok(Latency::default())
    }

    fn close(&mut self, _: &Path) -> anyhow::Result<()> {
        self.note_after();
        Ok(())
    }

    fn audit(
        &mut self,
        patience: Duration,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Option<Integrity> {
        let promises = Promises(self.load.targets().map(Instances::ledger).collect());
        let audited = self.threads.block_on(audit(&self.shared, &promises, patience, progress));
        self.figures.audited = audited;
        Some(self.figures.audited.integrity.clone())
    }

    fn inspections(&self) -> (Option<Collection>, Option<Collection>) {
        (None, None)
    }

    fn workflow(&self) -> Option<Workflow> {
        let ledgers = || self.load.targets().map(Instances::ledger);
        let [start_ns, publish_ns, signal_to_completion_ns] = latencies(ledgers());
        let promises: Vec<_> = ledgers().flat_map(|ledger| ledger.promises()).collect();
        let started = promises.iter().filter(|promise| promise.start == Fate::Acknowledged).count();
        let received = ledgers().flat_map(|ledger| ledger.receivers().into_values());
        let received: u64 = received.map(|sent| sent.acknowledged()).sum();
        let signals: u64 = promises.iter().map(|promise| u64::from(promise.signals)).sum();
        let (database, calls) = self.figures.grown.clone();
        let audited = &self.figures.audited;
        Some(Workflow {
            store: self.section.store.name().to_owned(),
            mode: self.section.mode.name().to_owned(),
            workers: self.section.workers,
            start_ns,
            publish_ns,
            signal_to_completion_ns,
            drain_s: self.figures.drain_s,
            backlog: self.figures.backlog,
            started: started as u64,
            signals: signals + received,
            dead_letters: audited.dead_letters,
            conflicts: self.shared.engine.store().conflicts(),
            failures: calls.values().map(|calls| calls.failed).sum(),
            stuck: audited.stuck,
            findings: audited.findings.clone(),
            calls,
            database,
        })
    }

    fn keep(self: Box<Self>, run: &Path) -> anyhow::Result<bool> {
        let Self { server, threads, shared, load, .. } = *self;
        drop((load, shared));
        threads.shutdown_background();
        match server {
            StoreServer::Mongodb(server) => server.keep(run),
            StoreServer::Postgres { .. } => Ok(false),
        }
    }
}
