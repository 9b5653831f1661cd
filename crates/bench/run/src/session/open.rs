//! Opens a session: announces the run, prepares the system, and calibrates before any operation is sent.

use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::bottlenecks::ObservedLoad;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock;
use plimsoll_measure::run::{Run, ScenarioFacts};

use super::{Session, announcement, id};
use crate::event_sinks::EventSinks;
use crate::exit::Outcome;
use crate::host_observer::HostObserver;
use crate::observer::Observer;
use crate::system::{RunContext, System};
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

/// The parts of a new session.
#[derive(Debug)]
pub struct Opening {
    /// The scenario.
    pub loaded: Loaded,
    /// The plan.
    pub plan: Plan,
    /// The system under load.
    pub system: Box<dyn System>,
    /// The sinks of the run's events.
    pub sinks: EventSinks,
    /// Receives the user's request to stop.
    pub control: Control,
    /// The share of this process among all shards.
    pub shard: Share,
    /// The run's identity.
    pub run: RunId,
    /// Wall time of the start in milliseconds.
    pub started_ms: u64,
    /// Whether the load is also sent to a server that answers at once, before and after.
    pub calibrates: bool,
}

impl Session {
    /// Prepares everything. Sends nothing of the load yet.
    ///
    /// # Errors
    /// When the system cannot be reached or prepared, or a file cannot be written.
    pub fn open(opening: Opening) -> Outcome<Self> {
        let Opening { loaded, plan, system, sinks, control, shard, run, started_ms, calibrates } = opening;
        let summary = Summary::new(plan.names(), plan.objective.clone()).expecting(&plan.expectations);
        let mut session = Self {
            loaded,
            plan,
            system,
            sinks,
            control,
            shard,
            run,
            start: clock::now(),
            started_ms,
            start_at_ms: None,
            warm_up: false,
            began_ms: None,
            summary,
            samples: Vec::new(),
            ladder: None,
            ended: Ended::Duration,
            pings_ns: Vec::new(),
            server_clock: None,
            ceilings: Vec::new(),
            floor: None,
            floor_phase: None,
            spread: Vec::new(),
            connections: 0,
            server_cpu_ns: 0,
            server_restarted: false,
            watched: ObservedLoad::default(),
            watched_cpu_ns: None,
            stopped: false,
            calibrates,
            observer: None,
            host: None,
            own: None,
        };
        session.announce()?;
        session.begin()?;
        // The ping is measured last, as close to the load as the ping after the load: by then the server has
        // started up, and the machine is warm.
        session.measure_ceiling()?;
        session.ping();
        session.observer = session.system.observed().map(|options| Observer::start(options, session.start));
        session.host = HostObserver::start(&session.system.pids(), session.start);
        session.own = HostObserver::start(&[std::process::id()], session.start);
        Ok(session)
    }

    fn announce(&mut self) -> Outcome<()> {
        let resolved = self.loaded.resolved()?;
        self.sinks.dir.scenario(&resolved)?;
        let scenario = ScenarioFacts { name: self.loaded.name.clone(), ..ScenarioFacts::default() };
        let server = self.system.facts().clone();
        let (id, started_ms) = (id(self.run), self.started_ms);
        let run = Run { id, started_ms, scenario, server, ..Run::default() };
        let event = announcement(&self.loaded, &run);
        self.emit(&event);
        Ok(())
    }

    fn begin(&mut self) -> Outcome<()> {
        let context = RunContext { loaded: &self.loaded, plan: &self.plan, run: self.run, shard: self.shard };
        let ledger = self.sinks.dir.ledger();
        let (sinks, control, start) = (&mut self.sinks, &self.control, self.start);
        self.system.begin(context, &ledger, &mut |text| sinks.note(start, text, control))
    }
}
