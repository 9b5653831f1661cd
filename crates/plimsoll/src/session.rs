//! One run from its first connection to its summary: what `run`, `line` and `ladder` have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Finished, Progress, RunError, Second};
use plimsoll_load::fault::Happening;
use plimsoll_load::phase::Phase;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::environment::ServerFacts;
use plimsoll_measure::event::{Event, Interval};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::interval::Tally;
use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::run::ServerShare;
use plimsoll_measure::sample::ServerSample;

use crate::exit::{Exit, Failure, Outcome};
use crate::observer::Observer;
use crate::plan::Plan;
use crate::readers::Readers;
use crate::scenario::Loaded;
use crate::system::{Ground, System, cpu_ns};

/// Everything about a run that is under way.
#[derive(Debug)]
pub struct Session {
    /// The scenario.
    pub loaded: Loaded,
    /// The plan.
    pub plan: Plan,
    /// What is under load.
    pub system: Box<dyn System>,
    /// Those who hear of the run's events.
    pub readers: Readers,
    /// The user's wish to stop.
    pub control: Control,
    /// This process among all shards.
    pub shard: Share,
    /// The run's identity.
    pub run: RunId,
    /// When the run started: events count from here.
    pub start: Instant,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// What was measured so far.
    pub summary: Summary,
    /// Every look at the server.
    pub samples: Vec<ServerSample>,
    /// What a ladder reached.
    pub ladder: Option<Ladder>,
    /// Why the run ended early, if it did.
    pub ended: Ended,
    /// Median round trips of an empty request before and after.
    pub pings_ns: Vec<u64>,
    /// Operations and documents per second against a server that answers at once, before and after the load.
    pub ceilings: Vec<(f64, f64)>,
    /// What each of several servers had of the load.
    pub spread: Vec<ServerShare>,
    /// Connections of the load at most.
    pub connections: usize,
    /// CPU of the system's processes under load, in nanoseconds.
    pub server_cpu_ns: u64,
    /// Whether one of them was started anew under load, so that their CPU is not known.
    pub server_restarted: bool,
    observer: Option<Observer>,
}

/// What a session is opened with.
#[derive(Debug)]
pub struct Opening {
    /// The scenario.
    pub loaded: Loaded,
    /// The plan.
    pub plan: Plan,
    /// What is under load.
    pub system: Box<dyn System>,
    /// Those who hear of the run's events.
    pub readers: Readers,
    /// The user's wish to stop.
    pub control: Control,
    /// This process among all shards.
    pub shard: Share,
    /// The run's identity.
    pub run: RunId,
    /// Wall time of the start in milliseconds.
    pub started_ms: u64,
}

impl Session {
    /// Gets everything ready: nothing of the load is sent yet.
    ///
    /// # Errors
    /// What cannot be meant, reached or begun.
    pub fn open(opening: Opening) -> Outcome<Self> {
        let Opening { loaded, plan, system, readers, control, shard, run, started_ms } = opening;
        let summary = Summary::new(plan.names(), plan.objective.clone()).expecting(&plan.expectations);
        let mut session = Self {
            loaded,
            plan,
            system,
            readers,
            control,
            shard,
            run,
            start: clock::now(),
            started_ms,
            summary,
            samples: Vec::new(),
            ladder: None,
            ended: Ended::Duration,
            pings_ns: Vec::new(),
            ceilings: Vec::new(),
            spread: Vec::new(),
            connections: 0,
            server_cpu_ns: 0,
            server_restarted: false,
            observer: None,
        };
        session.announce()?;
        session.begin()?;
        session.ping();
        session.measure_ceiling()?;
        session.observer = session.system.observed().map(|options| Observer::start(options, session.start));
        Ok(session)
    }

    /// Tells every reader of the run's events.
    pub fn emit(&mut self, event: &Event) {
        self.readers.emit(event, &self.control);
    }

    /// Tells the user something.
    pub fn note(&mut self, text: impl Into<String>) {
        self.readers.note(self.start, text.into(), &self.control);
    }

    /// Nanoseconds since the run's start.
    pub fn elapsed_ns(&self) -> u64 {
        clock::now().since(self.start)
    }

    /// Whether the run cannot go on.
    pub fn is_over(&self) -> bool {
        self.ended.is_early() || self.control.is_stopped()
    }

    /// Runs one phase and gives its seconds to `sink` as well.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn run(&mut self, phase: &Phase, mut sink: impl FnMut(&Second)) -> Outcome<Finished> {
        if let Some(key) = phase.key {
            self.prepare(key)?;
        }
        let pids = self.system.pids();
        let used_ns = cpu_ns(&pids);
        let mut faults = self.system.faults(&self.plan, phase);
        let control = self.control.clone();
        let mut log = Log {
            names: self.plan.names(),
            summary: &mut self.summary,
            readers: &mut self.readers,
            samples: &mut self.samples,
            observer: self.observer.as_ref(),
            control: &control,
            from_ns: clock::now().since(self.start),
        };
        let start = self.start;
        let finished = self.system.run(phase, &control, &mut faults, &mut |progress| match progress {
            Progress::Began(at) => log.from_ns = at.since(start),
            Progress::Second(second) => {
                sink(&second);
                log.second(phase, &second);
            }
            Progress::Fault(happening) => log.happened(phase, &happening),
        });
        self.connections = self.connections.max(self.system.connections());
        let finished = finished.map_err(run_failure)?;
        self.count_server_cpu(&pids, used_ns);
        self.summary.end(phase, &finished, finished.start.since(self.start));
        self.ended = self.ended.max(finished.ended);
        Ok(finished)
    }

    /// Gets ready what one of the plan's phases needs before its load.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn prepare(&mut self, phase: usize) -> Outcome<()> {
        let (readers, control, start) = (&mut self.readers, &self.control, self.start);
        self.system.prepare(&self.plan, phase, &mut |text| readers.note(start, text, control))
    }

    /// Ends the workers: everything that was sent is in the books then.
    ///
    /// # Errors
    /// When the disk refuses the ledger.
    pub fn close(&mut self) -> anyhow::Result<()> {
        self.ping();
        if !self.is_over() {
            self.measure_ceiling()?;
        }
        let seen = self.observer.take().map(Observer::stop).unwrap_or_default();
        self.readers.look(&mut self.samples, seen, &self.control);
        self.spread = self.system.shares();
        self.system.close(&self.readers.dir.ledger())
    }

    /// Reads back what was written. A server that was given up already is not waited for once more.
    pub fn audit(&mut self) -> Option<Integrity> {
        let given_up = self.ended == Ended::Unreachable || self.control.is_stopped();
        let limit = self.loaded.scenario.unreachable_for;
        let patience = if given_up { Duration::ZERO } else { Duration::from_nanos(limit.as_ns()) };
        let terminal = &mut self.readers.terminal;
        self.system.audit(patience, &mut |read, expected| {
            if let Some(terminal) = terminal {
                terminal.on(&Event::Auditing { read, expected });
            }
        })
    }

    fn announce(&mut self) -> Outcome<()> {
        let resolved = self.loaded.resolved()?;
        self.readers.dir.scenario(&resolved)?;
        self.emit(&Event::Started {
            id: id(self.run),
            scenario: self.loaded.name.clone(),
            title: self.loaded.scenario.title.clone(),
            server: describe(self.system.facts()),
            wall_ms: self.started_ms,
        });
        Ok(())
    }

    fn begin(&mut self) -> Outcome<()> {
        let ground = Ground { loaded: &self.loaded, plan: &self.plan, run: self.run, shard: self.shard };
        let ledger = self.readers.dir.ledger();
        let (readers, control, start) = (&mut self.readers, &self.control, self.start);
        self.system.begin(ground, &ledger, &mut |text| readers.note(start, text, control))
    }

    fn ping(&mut self) {
        self.pings_ns.extend(self.system.ping_ns());
    }

    fn measure_ceiling(&mut self) -> anyhow::Result<()> {
        let Some(phase) = self.plan.phases.last().cloned() else { return Ok(()) };
        let ceiling = self.system.ceiling(&phase, &self.control)?;
        self.ceilings.extend(Some(ceiling).filter(|(operations, _)| *operations > 0.0));
        Ok(())
    }

    /// Adds what the system's processes used since `before_ns`; one that was started anew does not tell.
    fn count_server_cpu(&mut self, pids: &[u32], before_ns: u64) {
        if self.system.pids() == pids {
            self.server_cpu_ns += cpu_ns(pids).saturating_sub(before_ns);
        } else {
            self.server_restarted = true;
        }
    }
}

/// What a phase tells, on its way to the summary and the readers.
struct Log<'a> {
    names: Vec<String>,
    summary: &'a mut Summary,
    readers: &'a mut Readers,
    samples: &'a mut Vec<ServerSample>,
    observer: Option<&'a Observer>,
    control: &'a Control,
    /// When the phase began, in nanoseconds from the run's start.
    from_ns: u64,
}

impl Log<'_> {
    fn second(&mut self, phase: &Phase, second: &Second) {
        self.summary.add(phase, second);
        if let Some(reason) = self.summary.broken() {
            self.control.abort(Ended::Threshold, reason);
        }
        let at_ns = self.from_ns + second.from_ns;
        self.readers.second(at_ns, second, &self.names, self.control);
        if second.to_ns > second.from_ns {
            self.readers.emit(&Event::Interval(interval(at_ns, second, &self.names)), self.control);
        }
        let seen = self.observer.map(Observer::drain).unwrap_or_default();
        self.readers.look(self.samples, seen, self.control);
    }

    fn happened(&mut self, phase: &Phase, happening: &Happening) {
        let name = phase.faults[happening.fault].name.clone();
        let at_ns = self.from_ns + happening.to_ns.unwrap_or(happening.from_ns);
        let undone = happening.to_ns.is_some();
        let event = Event::Fault { at_ns, name, undone, error: happening.error.clone() };
        self.readers.emit(&event, self.control);
    }
}

/// The run's identity as 14 hex digits: every receipt starts with it.
pub fn id(run: RunId) -> String {
    run.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new identity for a run that starts now.
pub fn new_run(started_ms: u64) -> RunId {
    let mut tag = [0; 3];
    // A system without random bytes gives the low bits of the clock instead; the time keeps runs apart as well.
    if rustix::rand::getrandom(&mut tag, rustix::rand::GetRandomFlags::empty()).is_err() {
        tag.copy_from_slice(&clock::now().as_ns().to_le_bytes()[..3]);
    }
    RunId { time_s: u32::try_from(started_ms / 1000).unwrap_or(u32::MAX), tag }
}

fn run_failure(error: RunError) -> Failure {
    let exit = match &error {
        RunError::Connect(_) => Exit::Server,
        RunError::Phase(_) => Exit::Usage,
        RunError::Panicked => Exit::Failed,
    };
    Failure { exit, error: error.into() }
}

fn interval(from_ns: u64, second: &Second, names: &[String]) -> Interval {
    let length_ns = second.to_ns - second.from_ns;
    let operations: BTreeMap<_, _> =
        names.iter().cloned().zip(second.tallies.iter().map(Tally::line)).collect();
    let share = |cpu_ns: &u64| *cpu_ns as f64 / length_ns as f64;
    Interval { from_ns, length_ns, operations, worker_cpu: second.cpu_ns.iter().map(share).collect() }
}

/// The server in a few words.
pub fn describe(facts: &ServerFacts) -> String {
    let what = facts.product.clone().or_else(|| facts.version.clone()).unwrap_or_else(|| "server".into());
    let profile = facts.profile.as_ref().map(|profile| format!(", {profile}")).unwrap_or_default();
    format!("{what}{profile} at {}", facts.addresses.join(", "))
}
