//! Puts an HTTP service under load: a running one, or one that the run starts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use plimsoll_host::service::Service as Process;
use plimsoll_http::preflight::{self, Reachable};
use plimsoll_http::{Http, NullServer, Setup};
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Engine, Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock;
use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::inspection::{Collection, Size};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::run::{Answers, ServerShare};
use plimsoll_wire::ConnectOptions;
use tokio::runtime::Runtime;

use crate::calibration::{self, RoundTrips};
use crate::managed_service::{DatabaseBehind, StartedService};
use crate::service_database;
use crate::service_kind::{self, Services};
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::injection::{self, Owned};
use plimsoll_run::system::{Replay, RunContext, System, Workers};
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod check;
mod read_back;

pub use check::check;

/// The number of initial round trips. Their duration determines the number of further round trips.
const PINGS: usize = 10;
/// The approximate size of a null server's answer without the text of its body, in bytes.
const ANSWER_BYTES: usize = 120;

/// A service under load.
#[derive(Debug)]
pub struct Service {
    /// The process, if Plimsoll started it. Faults share it: the end of a fault undoes nothing that another active fault still
    /// needs, also across phases.
    /// Fields drop in order: `started` drops after this value and then owns the process alone.
    process: Option<Owned<Process>>,
    /// The service, if this run started it.
    started: Option<StartedService>,
    setup: Arc<Setup>,
    facts: ServerFacts,
    workers: Workers,
    engine: Engine<Http>,
    answers: Vec<Answers>,
    /// The collections of its database, before and after the load.
    behind: [Vec<Collection>; 2],
    runtime: Runtime,
}

/// The target of the requests, and the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The URL of the service.
    pub url: &'a str,
    /// The start of the run, in milliseconds since 1970.
    pub start_ms: u64,
    /// The services whose workloads requests may name.
    pub services: Services,
}

/// Compiles the requests of a scenario.
///
/// # Errors
/// The first invalid request.
pub fn compile(loaded: &Loaded, plan: &Plan, to: Destination<'_>) -> anyhow::Result<Setup> {
    let mut section = loaded.scenario.http.clone().unwrap_or_default();
    to.url.clone_into(&mut section.url);
    let start_ms = i64::try_from(to.start_ms).unwrap_or(i64::MAX);
    let context = plimsoll_http::Context { seed: loaded.scenario.seed, start_ms, base: &loaded.base };
    let workloads = |typed: &_, context| service_kind::workload(to.services, typed, context);
    Ok(Setup::build_with(&section, &plan.service(), context, &workloads)?)
}

/// The service that a load goes to.
#[derive(Debug)]
pub enum Address {
    /// A running service, by its URL.
    Running(String),
    /// A service that this run started.
    Started(Box<StartedService>),
}

impl Service {
    /// A null server, and an engine for it. `None` if the null server does not support the service's protocol.
    fn against_null(
        &self,
        answer_bytes: usize,
        spin: Spin,
    ) -> anyhow::Result<Option<(NullServer, Engine<Http>)>> {
        let server = NullServer::start(&null_options(answer_bytes)).context("start the null server")?;
        let Some(setup) = self.setup.against(server.address()).map(Arc::new) else { return Ok(None) };
        let operations = self.setup.names().count();
        let workers = Workers { spin, ..self.workers };
        let engine = engine(&setup, operations, Share::WHOLE, workers)?;
        Ok(Some((server, engine)))
    }

    /// Checks that the service is reachable. Sends nothing of the load yet.
    ///
    /// # Errors
    /// When the scenario is invalid, or the service cannot be reached.
    pub fn open(
        context: RunContext<'_>,
        address: Address,
        services: Services,
        runtime: Runtime,
    ) -> Outcome<Self> {
        let (url, started) = match address {
            Address::Running(url) => (url, None),
            Address::Started(started) => (started.url(), Some(*started)),
        };
        // All shards of one run share a start time, even if they were started at different times.
        let is_whole = context.shard == Share::WHOLE;
        let start_ms = if is_whole { clock::wall_ms() } else { u64::from(context.run.time_s) * 1000 };
        let to = Destination { url: &url, start_ms, services };
        let setup = compile(context.loaded, context.plan, to).deserves(Exit::Usage)?;
        let setup = match started.as_ref().and_then(StartedService::proxy) {
            Some(address) => setup.by_way_of(address),
            None => setup,
        };
        let reached = runtime.block_on(preflight::check(&setup)).deserves(Exit::Server)?;
        let facts = facts(&reached, &setup, started.as_ref());
        let workers = Workers::of(context, started.is_some());
        let setup = Arc::new(setup);
        let operations = context.plan.operations.len();
        let engine = engine(&setup, operations, context.shard, workers).context("start the workers")?;
        let process = started.as_ref().map(|started| Owned::sharing(Arc::clone(&started.process)));
        let mut service = Self {
            process,
            started,
            setup,
            facts,
            workers,
            engine,
            answers: Vec::new(),
            behind: Default::default(),
            runtime,
        };
        service.behind[0] = service.look_behind();
        Ok(service)
    }

    /// The collections of the database behind a service that Plimsoll started.
    fn look_behind(&self) -> Vec<Collection> {
        let Some((started, database)) = self.database() else { return Vec::new() };
        self.runtime.block_on(service_database::look(&database.place, started.database_name()))
    }

    /// The database behind a service that this run started.
    fn database(&self) -> Option<(&StartedService, &DatabaseBehind)> {
        let started = self.started.as_ref()?;
        Some((started, started.database.as_ref()?))
    }

    /// The checked answers of each operation, over all workers.
    fn gather(&self) -> Vec<Answers> {
        let mut all: Vec<plimsoll_http::counts::Answers> = Vec::new();
        for answers in self.engine.targets().map(Http::answers) {
            if all.is_empty() {
                all = answers;
            } else {
                all.iter_mut().zip(&answers).for_each(|(sum, part)| sum.merge(part));
            }
        }
        all.into_iter().map(recorded).collect()
    }
}

fn recorded(answers: plimsoll_http::counts::Answers) -> Answers {
    let checks = answers.checks.into_iter();
    Answers {
        operation: answers.operation,
        statuses: answers.statuses,
        checks: checks
            .map(|check| plimsoll_measure::run::Check {
                name: check.name,
                passed: check.passed,
                failed: check.failed,
            })
            .collect(),
    }
}

fn engine(
    setup: &Arc<Setup>,
    operations: usize,
    shard: Share,
    workers: Workers,
) -> std::io::Result<Engine<Http>> {
    let count = workers.count as u64;
    let share = |worker| Share { index: shard.index * count + worker, of: shard.of * count };
    let targets = (0..count).map(|worker| Arc::new(Http::new(setup.clone(), share(worker)))).collect();
    Engine::new(targets, operations, shard, workers.spin)
}

fn facts(reached: &Reachable, setup: &Setup, started: Option<&StartedService>) -> ServerFacts {
    let database = started.and_then(|started| started.database.as_ref());
    let service = || ServerFacts { kind: ServerKind::Service, ..ServerFacts::default() };
    let mut facts = database.map_or_else(service, |database| database.facts.clone());
    facts.addresses = vec![reached.address.clone()];
    facts.parameters.insert("protocol".to_owned(), setup.protocol().name().to_owned());
    facts.product = match (started, &facts.product) {
        (Some(started), Some(database)) => Some(format!("{} on {database}", started.name())),
        (Some(started), None) => Some(started.name().to_owned()),
        _ => reached.server.clone(),
    };
    facts
}

impl System for Service {
    fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    fn workers(&self) -> Workers {
        self.workers
    }

    fn client(&self) -> &'static str {
        self.setup.protocol().name()
    }

    fn tells_bytes(&self) -> bool {
        true
    }

    fn collections(&self) -> Vec<String> {
        Vec::new()
    }

    fn answers(&self) -> Vec<Answers> {
        self.answers.clone()
    }

    fn pids(&self) -> Vec<u32> {
        self.started.as_ref().map(StartedService::pids).unwrap_or_default()
    }

    /// The database behind the service.
    fn observed(&self) -> Option<ConnectOptions> {
        self.database().map(|(_, database)| database.place.deployment.options())
    }

    fn begin(&mut self, _: RunContext<'_>, _: &Path, tell: &mut dyn FnMut(String)) -> Outcome<()> {
        self.started.as_mut().map(|started| started.notes.drain(..)).into_iter().flatten().for_each(tell);
        Ok(())
    }

    fn prepare(&mut self, _: &Plan, _: usize, _: &mut dyn FnMut(String)) -> Outcome<()> {
        Ok(())
    }

    fn faults(&self, plan: &Plan, phase: &Phase) -> Vec<Box<dyn Fault>> {
        let Some(started) = &self.started else { return Vec::new() };
        let injections = phase.faults.iter().filter_map(|planned| plan.injections.get(planned.key));
        let tied = injections.filter_map(|aimed| match aimed.victim {
            plimsoll_scenario::Victim::Service => {
                injection::tie(&aimed.fault, self.process.as_ref(), &started.proxies)
            }
            plimsoll_scenario::Victim::Server => {
                let place = &started.database.as_ref()?.place;
                injection::tie(&aimed.fault, place.server.as_ref(), &place.proxies)
            }
        });
        tied.collect()
    }

    fn begin_at(&mut self, at: clock::Instant) {
        self.engine.begin_at(at);
    }

    fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError> {
        self.engine.run(phase, control, faults, sink)
    }

    fn connections(&self) -> usize {
        self.engine.connections()
    }

    fn shares(&self) -> Vec<ServerShare> {
        Vec::new()
    }

    /// The round trip of a bare request for the URL's path, on an open and authenticated connection.
    fn ping_ns(&self) -> Option<u64> {
        let pings = |count| self.runtime.block_on(preflight::round_trips(&self.setup, count)).ok();
        let first: RoundTrips = pings(PINGS)?.into_iter().collect();
        let trips: RoundTrips = pings(first.worth())?.into_iter().collect();
        trips.median_ns()
    }

    /// Zero operations if the null server does not support the service's protocol.
    fn ceiling(&self, phase: &Phase, control: &Control) -> anyhow::Result<(f64, f64)> {
        let Some((_server, mut engine)) = self.against_null(0, Spin::Off)? else { return Ok((0.0, 0.0)) };
        calibration::reached(phase, |phase, sink| engine.run(phase, control, &mut [], sink))
    }

    /// No operations if the null server does not support the service's protocol.
    fn floor(&self, replay: &Replay<'_>, control: &Control) -> anyhow::Result<Latency> {
        let Some((_server, mut engine)) = self.against_null(replay.answer_bytes, replay.spin)? else {
            return Ok(Latency::default());
        };
        calibration::replayed(replay, |phase, sink| engine.run(phase, control, &mut [], sink))
    }

    fn close(&mut self, _: &Path) -> anyhow::Result<()> {
        self.answers = self.gather();
        self.behind[1] = self.look_behind();
        Ok(())
    }

    /// Requests the documents of operations with `read_back` by their keys. `None` without such operations: then only the service's
    /// database knows the stored data.
    fn audit(
        &mut self,
        patience: Duration,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Option<Integrity> {
        let sent = || self.engine.targets().flat_map(Http::sent).collect();
        self.setup
            .reads_back()
            .then(|| read_back::audit(&self.setup, sent(), &self.runtime, patience, progress))
    }

    fn inspections(&self) -> (Option<Collection>, Option<Collection>) {
        (None, None)
    }

    fn collections_behind(&self) -> [Vec<Collection>; 2] {
        self.behind.clone()
    }

    /// The size of a started service's database.
    fn size(&self) -> Option<Size> {
        let (started, database) = self.database()?;
        self.runtime.block_on(service_database::size(&database.place, started.database_name()))
    }

    fn keep(self: Box<Self>, run: &Path) -> anyhow::Result<bool> {
        let Self { process, started, .. } = *self;
        drop(process);
        started.map_or(Ok(false), |started| started.keep(run))
    }
}

/// A null server whose answers have approximately this size, in bytes.
fn null_options(answer_bytes: usize) -> plimsoll_http::null::Options {
    let options = plimsoll_http::null::Options::default();
    match answer_bytes.checked_sub(ANSWER_BYTES) {
        Some(bytes) => {
            let text = "x".repeat(bytes);
            plimsoll_http::null::Options { body: format!(r#"{{"text":"{text}"}}"#).into_bytes(), ..options }
        }
        None => options,
    }
}
