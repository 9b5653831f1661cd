//! One run from its first connection to its summary: what `run` and `line` have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use plimsoll_document::IdForm;
use plimsoll_ledger::{Deal, Ledger, Neighbours, Run as RunId, Touched};
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Finished, Progress, RunError, Second};
use plimsoll_load::fault::{Fault, Happening};
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::event::{Event, Interval};
use plimsoll_measure::inspection::Collection;
use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::run::ServerShare;
use plimsoll_measure::sample::ServerSample;
use plimsoll_mongo::books::{Books, Closed};
use plimsoll_mongo::collection::{self, Before};
use plimsoll_mongo::inspect::brief;
use plimsoll_mongo::keeper::KeeperThread;
use plimsoll_mongo::setup::{Command, Context as SetupContext, Setup};
use plimsoll_mongo::sharding;
use plimsoll_server::probe::Probe;
use plimsoll_server::{machine, process};
use plimsoll_wire::{ConnectOptions, Connection};

use crate::canary;
use crate::exit::{Deserves, Exit, Outcome};
use crate::fleet::Fleet;
use crate::injection;
use crate::observer::Observer;
use crate::place::Place;
use crate::plan::Plan;
use crate::run_dir::RunDir;
use crate::scenario::Loaded;
use crate::terminal::Terminal;

/// Everything about a run that is under way.
#[derive(Debug)]
pub struct Session {
    /// The scenario.
    pub loaded: Loaded,
    /// The plan.
    pub plan: Plan,
    /// What it means for MongoDB.
    pub setup: Arc<Setup>,
    /// The server.
    pub place: Place,
    /// What the server says it is.
    pub facts: ServerFacts,
    /// The collection before the run.
    pub before: Before,
    /// The run directory.
    pub dir: RunDir,
    /// The live view, if somebody looks.
    pub terminal: Option<Terminal>,
    /// The user's wish to stop.
    pub control: Control,
    /// This process among all shards.
    pub shard: Share,
    /// Worker threads.
    pub workers: usize,
    /// Whether the pacer spins.
    pub spin: Spin,
    /// When the run started: events count from here.
    pub start: Instant,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// What was measured so far.
    pub summary: Summary,
    /// Every look at the server.
    pub samples: Vec<ServerSample>,
    /// The collection before the load, as the server told.
    pub collection_before: Option<Collection>,
    /// The same after the audit.
    pub collection_after: Option<Collection>,
    /// What a ladder reached.
    pub ladder: Option<Ladder>,
    /// Why the run ended early, if it did.
    pub ended: Ended,
    /// Median round trips of an empty command before and after.
    pub pings_ns: Vec<u64>,
    /// Operations and documents per second against a server that answers at once, before and after the load.
    pub ceilings: Vec<(f64, f64)>,
    /// What each of several servers had of the load.
    pub spread: Vec<ServerShare>,
    /// Connections of the load at most.
    pub connections: usize,
    /// CPU of the server's process under load, in nanoseconds.
    pub server_cpu_ns: u64,
    /// Whether its process was started anew under load, so that its CPU is not known.
    pub server_restarted: bool,
    /// What went wrong with the run directory, if anything did.
    pub disk: Option<anyhow::Error>,
    /// For everything that waits for the server outside the load.
    pub runtime: tokio::runtime::Runtime,
    fleet: Option<Fleet>,
    keeper: Option<KeeperThread>,
    deal: Deal,
    observer: Option<Observer>,
}

/// What a session is opened with.
#[derive(Debug)]
pub struct Opening {
    /// The scenario.
    pub loaded: Loaded,
    /// The server.
    pub place: Place,
    /// The run directory.
    pub dir: RunDir,
    /// The live view.
    pub terminal: Option<Terminal>,
    /// The user's wish to stop.
    pub control: Control,
    /// This process among all shards.
    pub shard: Share,
    /// Wall time of the start in milliseconds.
    pub started_ms: u64,
}

/// The documents after the load.
#[derive(Debug)]
pub struct Promised {
    /// What became of each.
    pub ledger: Ledger,
    /// Which others may have changed.
    pub touched: Touched,
}

impl Session {
    /// Gets everything ready: nothing of the load is sent yet.
    ///
    /// # Errors
    /// What cannot be meant, reached or begun.
    pub fn open(opening: Opening, plan: Plan, runtime: tokio::runtime::Runtime) -> Outcome<Self> {
        let Opening { loaded, place, dir, terminal, control, shard, started_ms } = opening;
        let setup = Arc::new(setup(&loaded, &plan, started_ms).deserves(Exit::Usage)?);
        let workers = workers(&loaded, &plan, &place);
        let spin = spin(workers, &place);
        let (facts, before) = runtime.block_on(greet(&place, &setup, &loaded))?;
        let workers_all = shard.of * workers as u64;
        let deal = Deal::new(setup.block(), workers_all, None).context("deal document numbers")?;
        let summary = Summary::new(plan.names(), plan.objective.clone());
        let mut session = Self {
            loaded,
            plan,
            setup,
            place,
            facts,
            before,
            dir,
            terminal,
            control,
            shard,
            workers,
            spin,
            start: clock::now(),
            started_ms,
            summary,
            samples: Vec::new(),
            collection_before: None,
            collection_after: None,
            ladder: None,
            ended: Ended::Duration,
            pings_ns: Vec::new(),
            ceilings: Vec::new(),
            spread: Vec::new(),
            connections: 0,
            server_cpu_ns: 0,
            server_restarted: false,
            disk: None,
            runtime,
            fleet: None,
            keeper: None,
            deal,
            observer: None,
        };
        session.announce()?;
        session.shard()?;
        session.collection_before = session.inspect();
        session.ping();
        session.measure_ceiling()?;
        session.hire()?;
        Ok(session)
    }

    /// Tells every reader of the run's events.
    pub fn emit(&mut self, event: &Event) {
        if let Some(terminal) = &mut self.terminal {
            terminal.on(event);
        }
        if let Err(error) = self.dir.event(event) {
            self.give_up(error);
        }
    }

    /// Tells the user something.
    pub fn note(&mut self, text: impl Into<String>) {
        let at_ns = self.elapsed_ns();
        self.emit(&Event::Note { at_ns, text: text.into() });
    }

    /// Nanoseconds since the run's start.
    pub fn elapsed_ns(&self) -> u64 {
        clock::now().since(self.start)
    }

    /// Whether the run cannot go on.
    pub fn is_over(&self) -> bool {
        self.ended >= Ended::Unreachable || self.control.is_stopped()
    }

    /// Runs one phase and gives its seconds to `sink` as well.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn run(&mut self, phase: &Phase, mut sink: impl FnMut(&Second)) -> Outcome<Finished> {
        if let Some(key) = phase.key {
            self.make_indexes(key)?;
        }
        let Some(mut fleet) = self.fleet.take() else { return Ok(Finished::default()) };
        let control = self.control.clone();
        let mut from_ns = self.elapsed_ns();
        let before = (self.place.pids(), self.server_cpu());
        let mut faults = self.faults(phase);
        let finished = fleet.run(phase, &control, &mut faults, |progress| match progress {
            Progress::Began(at) => from_ns = at.since(self.start),
            Progress::Second(second) => {
                sink(&second);
                self.second(phase, from_ns, &second);
            }
            Progress::Fault(happening) => self.happened(phase, from_ns, &happening),
        });
        self.connections = self.connections.max(fleet.connections());
        self.fleet = Some(fleet);
        let finished = finished.map_err(run_failure)?;
        self.count_server_cpu(before);
        self.summary.end(phase, &finished, finished.start.since(self.start));
        self.ended = self.ended.max(finished.ended);
        Ok(finished)
    }

    /// Makes the indexes of one of the plan's phases on every server, and says how long that took.
    ///
    /// # Errors
    /// What the server says.
    pub fn make_indexes(&mut self, phase: usize) -> Outcome<()> {
        let keys = self.plan.indexes.get(phase).cloned().unwrap_or_default();
        if keys.is_empty() {
            return Ok(());
        }
        let began = clock::now();
        self.runtime.block_on(async {
            for place in self.place.all() {
                // An index over much data takes its time; the command's own limit is for operations.
                let options = ConnectOptions { timeout: None, ..place.site.options() };
                let mut connection = Connection::connect(&options).await.deserves(Exit::Server)?;
                let made = collection::make_indexes(&mut connection, &self.setup.namespace, &keys).await;
                made.context("make indexes").deserves(Exit::Server)?;
            }
            Outcome::Ok(())
        })?;
        let took_s = clock::now().since(began) as f64 / 1e9;
        self.note(format!("made {} indexes in {took_s:.2} s", keys.len()));
        Ok(())
    }

    /// Ends the workers: everything that was sent is in the ledger then.
    ///
    /// # Errors
    /// When the disk refuses the ledger.
    pub fn close_books(&mut self) -> anyhow::Result<Promised> {
        self.ping();
        if !self.is_over() {
            self.measure_ceiling()?;
        }
        let seen = self.observer.take().map(Observer::stop).unwrap_or_default();
        self.look(seen);
        self.spread = self.fleet.as_ref().map(Fleet::shares).unwrap_or_default();
        let closed = self.fleet.take().map(Fleet::close).unwrap_or_default();
        let kept = self.keeper.take().map_or(Ok(()), KeeperThread::close);
        // A worker without its books would make its documents look never sent.
        anyhow::ensure!(
            closed.len() == self.workers,
            "a worker kept its books: this is a fault of Plimsoll, please report it"
        );
        let books = gather(self.setup.run, self.deal, closed);
        kept.context("keep the ledger")?;
        plimsoll_ledger::save(&self.dir.ledger(), &books.ledger).context("save the ledger")?;
        Ok(books)
    }

    /// Whether documents of others may be in the collection.
    pub fn neighbours(&self) -> Neighbours {
        let upserts = |command: &Command| matches!(command, Command::Update { upsert: true, .. });
        let own = self.setup.id == IdForm::Own || self.setup.commands.iter().any(upserts);
        let alone = self.before.documents == 0 && self.shard.of == 1 && !own;
        if alone { Neighbours::Excluded } else { Neighbours::Expected }
    }

    fn announce(&mut self) -> Outcome<()> {
        let resolved = self.loaded.resolved()?;
        self.dir.scenario(&resolved)?;
        self.emit(&Event::Started {
            id: id(self.setup.run),
            scenario: self.loaded.name.clone(),
            title: self.loaded.scenario.title.clone(),
            server: describe(&self.facts),
            wall_ms: self.started_ms,
        });
        if let Some(reason) = self.before.vanishing.clone() {
            self.note(format!("{reason}: integrity cannot be shown"));
        }
        Ok(())
    }

    /// Shards the collection as the scenario says; every command is told.
    fn shard(&mut self) -> Outcome<()> {
        let Some(typed) = &self.loaded.scenario.shard else { return Ok(()) };
        let context =
            SetupContext { seed: self.loaded.scenario.seed, run: self.setup.run, base: &self.loaded.base };
        let plan = sharding::Plan::build(typed, &self.setup, self.plan.documents(), context);
        let plan = plan.deserves(Exit::Usage)?;
        let mut told = Vec::new();
        let applied = self.runtime.block_on(async {
            let mut connection =
                Connection::connect(&self.place.site.options()).await.deserves(Exit::Server)?;
            let done = sharding::apply(&mut connection, &plan, |text| told.push(text)).await;
            let usage = matches!(done, Err(sharding::Error::NoMongos(_)));
            done.deserves(if usage { Exit::Usage } else { Exit::Server })
        });
        told.into_iter().for_each(|text| self.note(text));
        applied
    }

    /// What the server says of the collection; nothing if it cannot be asked.
    pub fn inspect(&self) -> Option<Collection> {
        self.runtime.block_on(async {
            let mut connection = Connection::connect(&self.place.site.options()).await.ok()?;
            brief(&mut connection, &self.setup.namespace).await.ok()
        })
    }

    fn ping(&mut self) {
        let ping = self.runtime.block_on(canary::ping_ns(&self.place.site.options()));
        self.pings_ns.extend(ping);
    }

    fn measure_ceiling(&mut self) -> anyhow::Result<()> {
        let Some(phase) = self.plan.phases.last().cloned() else { return Ok(()) };
        let ceiling =
            canary::ceiling(&self.setup, &phase, self.place.all().count(), self.workers, &self.control)?;
        self.ceilings.extend(Some(ceiling).filter(|(operations, _)| *operations > 0.0));
        Ok(())
    }

    /// Starts the keeper, the workers and the observer.
    fn hire(&mut self) -> Outcome<()> {
        let first = self.shard.index * self.workers as u64;
        let workers = first..first + self.workers as u64;
        let keeper = KeeperThread::start(&self.dir.ledger(), self.setup.run, self.deal, workers.clone());
        let keeper = keeper.context("start the ledger")?;
        let books =
            workers.map(|worker| Books::new(self.deal, worker, keeper.reservations(worker))).collect();
        let fleet = Fleet::new(&self.setup, &self.place.roads(), books, self.shard, self.spin);
        self.fleet = Some(fleet.context("start the workers")?);
        self.keeper = Some(keeper);
        self.observer = Some(Observer::start(self.place.site.options(), self.start));
        Ok(())
    }

    fn second(&mut self, phase: &Phase, from_ns: u64, second: &Second) {
        self.summary.add(phase, second);
        let at_ns = from_ns + second.from_ns;
        let names = self.plan.names();
        if let Err(error) = self.dir.second(at_ns, second, &names) {
            self.give_up(error);
        }
        if second.to_ns > second.from_ns {
            self.emit(&Event::Interval(interval(at_ns, second, &names)));
        }
        let seen = self.observer.as_ref().map(Observer::drain).unwrap_or_default();
        self.look(seen);
    }

    fn look(&mut self, seen: Vec<ServerSample>) {
        for sample in seen {
            self.emit(&Event::Server(sample.clone()));
            self.samples.push(sample);
        }
    }

    /// The disk refuses: the load stops, and the first reason is kept.
    fn give_up(&mut self, error: anyhow::Error) {
        self.control.stop();
        self.disk.get_or_insert(error);
    }

    /// What the phase plans, tied to the server.
    fn faults(&self, phase: &Phase) -> Vec<Box<dyn Fault>> {
        let injections = phase.faults.iter().filter_map(|planned| self.plan.injections.get(planned.key));
        let tied = injections.filter_map(|aimed| {
            let place = self.place.all().nth(aimed.server)?;
            injection::tie(&aimed.fault, place.server.as_ref(), &place.proxies)
        });
        tied.collect()
    }

    fn happened(&mut self, phase: &Phase, from_ns: u64, happening: &Happening) {
        let name = phase.faults[happening.fault].name.clone();
        let at_ns = from_ns + happening.to_ns.unwrap_or(happening.from_ns);
        let undone = happening.to_ns.is_some();
        self.emit(&Event::Fault { at_ns, name, undone, error: happening.error.clone() });
    }

    /// Adds what the server's process used since `before`; one that was started anew does not tell.
    fn count_server_cpu(&mut self, before: (Vec<u32>, u64)) {
        let (pids, cpu_ns) = before;
        if self.place.pids() == pids {
            self.server_cpu_ns += self.server_cpu().saturating_sub(cpu_ns);
        } else {
            self.server_restarted = true;
        }
    }

    /// CPU that the server's process has used, in nanoseconds; zero if it is not known.
    pub fn server_cpu(&self) -> u64 {
        self.place.pids().into_iter().filter_map(process::usage).map(|usage| usage.cpu_ns).sum()
    }
}

/// The run's identity as 14 hex digits: every receipt starts with it.
pub fn id(run: RunId) -> String {
    run.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn setup(loaded: &Loaded, plan: &Plan, started_ms: u64) -> anyhow::Result<Setup> {
    let run = new_run(started_ms);
    let context = SetupContext { seed: loaded.scenario.seed, run, base: &loaded.base };
    Ok(Setup::build(&loaded.scenario.section(), &plan.operations, context)?)
}

fn new_run(started_ms: u64) -> RunId {
    let mut tag = [0; 3];
    // A system without random bytes gives the low bits of the clock instead; the time keeps runs apart as well.
    if rustix::rand::getrandom(&mut tag, rustix::rand::GetRandomFlags::empty()).is_err() {
        tag.copy_from_slice(&clock::now().as_ns().to_le_bytes()[..3]);
    }
    RunId { time_s: u32::try_from(started_ms / 1000).unwrap_or(u32::MAX), tag }
}

fn is_local(place: &Place) -> bool {
    !place.pids().is_empty()
}

/// As many workers as there are cores to spare, at most one a connection.
fn workers(loaded: &Loaded, plan: &Plan, place: &Place) -> usize {
    let cores = machine::cores() as usize;
    let spare = cores.saturating_sub(usize::from(is_local(place)));
    let wanted = loaded.scenario.workers.map_or(spare, |workers| workers as usize);
    wanted.clamp(1, plan.connections().max(1) as usize).min(256)
}

/// The pacer spins only where workers and a local server leave a core free.
fn spin(workers: usize, place: &Place) -> Spin {
    let busy = workers + usize::from(is_local(place));
    if busy >= machine::cores() as usize { Spin::Off } else { Spin::On }
}

/// Asks the server what it is, and looks at the collection.
async fn greet(place: &Place, setup: &Setup, loaded: &Loaded) -> Outcome<(ServerFacts, Before)> {
    let options = place.site.options();
    let mut probe = Probe::connect(&options).await.deserves(Exit::Server)?;
    let mut facts = probe.facts().await.deserves(Exit::Server)?;
    facts.kind = place.kind;
    facts.open = place.site.is_open();
    facts.addresses = place.site.addresses().iter().map(ToString::to_string).collect();
    if let Some(server) = &place.server {
        server.server().describe(&mut facts);
    }
    let mut before = look_at(place, setup, loaded).await?;
    for other in &place.others {
        facts.addresses.extend(other.site.addresses().iter().map(ToString::to_string));
        let more = look_at(other, setup, loaded).await?;
        before.documents += more.documents;
        before.vanishing = before.vanishing.or(more.vanishing);
    }
    Ok((facts, before))
}

/// Looks at the collection on one server and makes it ready.
async fn look_at(place: &Place, setup: &Setup, loaded: &Loaded) -> Outcome<Before> {
    let mut connection = Connection::connect(&place.site.options()).await.deserves(Exit::Server)?;
    let prepared = collection::prepare(&mut connection, &setup.namespace, loaded.scenario.existing).await;
    let before = prepared.map_err(|error| {
        let exit =
            if matches!(error, collection::Error::NotEmpty { .. }) { Exit::Usage } else { Exit::Server };
        crate::exit::Failure { exit, error: error.into() }
    })?;
    check_size(setup, &connection)?;
    Ok(before)
}

/// Documents over the server's limit are refused before any load.
fn check_size(setup: &Setup, connection: &Connection) -> Outcome<()> {
    let limit = connection.limits().max_bson_object_bytes as usize;
    let (_, largest) = setup.source.as_ref().map_or((0, 0), |source| source.len_bounds());
    if largest > limit {
        let error = anyhow::anyhow!(
            "document: up to {largest} bytes, and this server takes {limit}; make its texts or arrays smaller"
        );
        return Err(crate::exit::Failure { exit: Exit::Usage, error });
    }
    Ok(())
}

fn run_failure(error: RunError) -> crate::exit::Failure {
    let exit = match &error {
        RunError::Connect(_) => Exit::Server,
        RunError::Phase(_) => Exit::Usage,
        RunError::Panicked => Exit::Failed,
    };
    crate::exit::Failure { exit, error: error.into() }
}

fn gather(run: RunId, deal: Deal, closed: Vec<Closed>) -> Promised {
    let mut ledger = Ledger::new(run, deal);
    let mut touched = Touched::None;
    for books in closed {
        touched.merge(&books.touched);
        ledger.adopt(books.worker, books.ledger);
    }
    Promised { ledger, touched }
}

fn interval(from_ns: u64, second: &Second, names: &[String]) -> Interval {
    let length_ns = second.to_ns - second.from_ns;
    let operations: BTreeMap<_, _> = names
        .iter()
        .cloned()
        .zip(second.tallies.iter().map(plimsoll_measure::interval::Tally::line))
        .collect();
    let share = |cpu_ns: &u64| *cpu_ns as f64 / length_ns as f64;
    Interval { from_ns, length_ns, operations, worker_cpu: second.cpu_ns.iter().map(share).collect() }
}

/// The server in a few words.
pub fn describe(facts: &ServerFacts) -> String {
    let what = facts.product.clone().or_else(|| facts.version.clone()).unwrap_or_else(|| "server".into());
    let profile = facts.profile.as_ref().map(|profile| format!(", {profile}")).unwrap_or_default();
    format!("{what}{profile} at {}", facts.addresses.join(", "))
}
