//! Holds one run from its first connection to its summary.

use std::time::Duration;

use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::bottlenecks::ObservedLoad;
use plimsoll_load::engine::{Finished, Progress, RunError, Second};
use plimsoll_load::phase::Phase;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::event::{Event, Sends};
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::run::ServerShare;
use plimsoll_measure::sample::ServerSample;

use crate::event_sinks::Readers;
use crate::exit::{Exit, Failure, Outcome};
use crate::observer::Observer;
use crate::phase_recorder::Log;
use crate::system::{System, cpu_ns};
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod announcement;
mod open;

use announcement::sends;
pub use announcement::{announcement, phase_event};
pub use open::Opening;

/// Connections are opened so long before the moment that the load begins at: none is left idle until it is closed for that.
const CONNECT_NS: u64 = 10 * clock::SECOND_NS;
/// The interval at which a wait checks whether the run was stopped, in nanoseconds.
const LOOK_NS: u64 = 100 * clock::MILLISECOND_NS;

/// How far an audit is, is written down this often, in nanoseconds: whoever watches the run sees that it moves.
const AUDITING_NS: u64 = 5 * clock::SECOND_NS;

/// Everything about a run that is under way.
#[derive(Debug)]
pub struct Session {
    /// The scenario.
    pub loaded: Loaded,
    /// The plan.
    pub plan: Plan,
    /// The system under load.
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
    /// When the load is to begin, in milliseconds since 1970, if not as soon as everything is ready.
    pub start_at_ms: Option<u64>,
    /// When it began.
    pub began_ms: Option<u64>,
    /// The measurements so far.
    pub summary: Summary,
    /// Every look at the server.
    pub samples: Vec<ServerSample>,
    /// The result of a ladder.
    pub ladder: Option<Ladder>,
    /// Why the run ended early, if it did.
    pub ended: Ended,
    /// Median round trips of an empty request before and after.
    pub pings_ns: Vec<u64>,
    /// Operations and documents per second against a server that answers at once, before and after the load.
    pub ceilings: Vec<(f64, f64)>,
    /// Each server's share of the load.
    pub spread: Vec<ServerShare>,
    /// Connections of the load at most.
    pub connections: usize,
    /// CPU of the system's processes under load, in nanoseconds.
    pub server_cpu_ns: u64,
    /// Whether one of them was started anew under load, so that their CPU is not known.
    pub server_restarted: bool,
    /// The phase that was run last, second by second.
    pub watched: ObservedLoad,
    /// CPU that the system's processes used in it, in nanoseconds; nothing if it is not known.
    pub watched_cpu_ns: Option<u64>,
    canary: bool,
    observer: Option<Observer>,
}

impl Session {
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
        self.wait_to_begin();
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
            began_ms: None,
            watched: ObservedLoad::default(),
        };
        let start = self.start;
        let finished = self.system.run(phase, &control, &mut faults, &mut |progress| match progress {
            Progress::Began(at) => log.began(phase, at.since(start), clock::wall_of(at)),
            Progress::Second(second) => {
                sink(&second);
                log.second(phase, &second);
            }
            Progress::Fault(happening) => log.happened(phase, &happening),
        });
        (self.watched, self.began_ms) = (log.watched, self.began_ms.or(log.began_ms));
        self.connections = self.connections.max(self.system.connections());
        let finished = finished.map_err(run_failure)?;
        self.count_server_cpu(&pids, used_ns);
        self.summary.end(phase, &finished, finished.start.since(self.start));
        self.readers.ended(&finished, &self.control);
        self.ended = self.ended.max(finished.ended);
        Ok(finished)
    }

    /// Before the first phase: waits for the moment that it begins at, if one was named, until it is time to connect.
    fn wait_to_begin(&mut self) {
        let Some(start_at_ms) = self.start_at_ms.filter(|_| self.summary.phases().is_empty()) else { return };
        let at = clock::at_wall(start_at_ms);
        let left_s = at.since(clock::now()) as f64 / 1e9;
        self.note(format!(
            "everything is ready: the load begins at {} in {left_s:.1} s",
            clock::utc(start_at_ms)
        ));
        while at.since(clock::now()) > CONNECT_NS && !self.control.is_stopped() {
            let left_ns = at.since(clock::now()).saturating_sub(CONNECT_NS);
            std::thread::sleep(Duration::from_nanos(left_ns.min(LOOK_NS)));
        }
        // The wall clock may have been set while we waited.
        self.system.begin_at(clock::at_wall(start_at_ms));
    }

    /// CPU of the system's processes under load, in nanoseconds, where it is known.
    pub fn server_cpu_ns(&self) -> Option<u64> {
        Some(self.server_cpu_ns).filter(|used_ns| *used_ns > 0 && !self.server_restarted)
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
        let (readers, control) = (&mut self.readers, &self.control);
        let mut kept: Option<Instant> = None;
        self.system.audit(patience, &mut |read, expected| {
            let (event, now) = (Event::Auditing { read, expected }, clock::now());
            if kept.is_none_or(|kept| now.since(kept) >= AUDITING_NS) {
                kept = Some(now);
                readers.emit(&event, control);
            } else if let Some(live) = &mut readers.live {
                live.on(&event);
            }
        })
    }

    /// The unit of one operation.
    pub const fn sends(&self) -> Sends {
        sends(&self.loaded)
    }

    fn ping(&mut self) {
        self.pings_ns.extend(self.system.ping_ns());
    }

    fn measure_ceiling(&mut self) -> anyhow::Result<()> {
        let Some(phase) = self.plan.phases.last().filter(|_| self.canary).cloned() else { return Ok(()) };
        let ceiling = self.system.ceiling(&phase, &self.control)?;
        self.ceilings.extend(Some(ceiling).filter(|(operations, _)| *operations > 0.0));
        Ok(())
    }

    /// Adds what the system's processes used since `before_ns`; one that was started anew does not tell.
    fn count_server_cpu(&mut self, pids: &[u32], before_ns: u64) {
        self.watched_cpu_ns = (self.system.pids() == pids).then(|| cpu_ns(pids).saturating_sub(before_ns));
        match self.watched_cpu_ns {
            Some(used_ns) => self.server_cpu_ns += used_ns,
            None => self.server_restarted = true,
        }
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
        RunError::Phase(_) | RunError::Late { .. } => Exit::Usage,
        RunError::Panicked => Exit::Failed,
    };
    Failure { exit, error: error.into() }
}
