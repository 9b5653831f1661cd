//! Holds one run from its first connection to its summary.

use std::time::Duration;

use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share;
use plimsoll_load::bottlenecks::ObservedLoad;
use plimsoll_load::engine::{Finished, Progress, RunError, Second};
use plimsoll_load::objective::Metric;
use plimsoll_load::phase::Phase;
use plimsoll_load::summary::Summary;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::clock_offset::ServerClock;
use plimsoll_measure::event::{Event, Sends};
use plimsoll_measure::expectation::Wanted;
use plimsoll_measure::histogram::Latency;
use plimsoll_measure::host_sample::HostSample;
use plimsoll_measure::integrity::Integrity;
use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::run::ServerShare;
use plimsoll_measure::sample::ServerSample;

use crate::event_sinks::EventSinks;
use crate::exit::{Exit, Failure, Outcome};
use crate::host_observer::HostObserver;
use crate::observer::Observer;
use crate::phase_recorder::Log;
use crate::system::{Replay, System, cpu_ns};
use plimsoll_scenario::Loaded;
use plimsoll_scenario::Plan;

mod announcement;
mod open;
mod read_back;

use announcement::sends;
pub use announcement::{announcement, phase_event};
pub use open::Opening;
use read_back::ReadBack;

/// The time before the load at which the run connects, in nanoseconds: so short that no idle connection is
/// closed meanwhile.
const CONNECT_NS: u64 = 10 * clock::SECOND_NS;
/// The interval at which a wait checks for a stop, in nanoseconds.
const LOOK_NS: u64 = 100 * clock::MILLISECOND_NS;
/// The largest answer of the null server, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The state of a run in progress.
#[derive(Debug)]
pub struct Session {
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
    /// Start of the run. Events count from it.
    pub start: Instant,
    /// Start of the run in milliseconds since 1970.
    pub started_ms: u64,
    /// Scheduled start of the load, in milliseconds since 1970. `None`: as soon as everything is ready.
    pub start_at_ms: Option<u64>,
    /// Whether the run is the warm-up of a suite's test, which has no verdict.
    pub warm_up: bool,
    /// Actual start of the load, in milliseconds since 1970. `None` before the start.
    pub began_ms: Option<u64>,
    /// The measurements so far.
    pub summary: Summary,
    /// Every server sample.
    pub samples: Vec<ServerSample>,
    /// The result of a ladder; `None` for any other run.
    pub ladder: Option<Ladder>,
    /// The reason why the run ended early, if it did.
    pub ended: Ended,
    /// Median round trips of an empty request before and after the load, in nanoseconds.
    pub pings_ns: Vec<u64>,
    /// The server's clock before and after the load of a shard.
    pub server_clock: Option<ServerClock>,
    /// Operations and documents per second against a server that answers at once, before and after the load.
    pub ceilings: Vec<(f64, f64)>,
    /// The tool's latency floor with the last load, and the lowest bound on a response time. `None` if the last load was closed.
    pub floor: Option<(Latency, Option<u64>)>,
    /// The phase whose latency floor is measured. `None`: the last phase of the plan.
    pub floor_phase: Option<Phase>,
    /// Each server's share of the load.
    pub spread: Vec<ServerShare>,
    /// The largest number of open connections.
    pub connections: usize,
    /// CPU time of the system's processes under load, in nanoseconds.
    pub server_cpu_ns: u64,
    /// Whether one of the system's processes restarted under load, so that their CPU time is unknown.
    pub server_restarted: bool,
    /// The last phase, second by second.
    pub watched: ObservedLoad,
    /// CPU time of the system's processes in the last phase, in nanoseconds. `None` if unknown.
    pub watched_cpu_ns: Option<u64>,
    /// Whether the user asked for a stop before the load was complete.
    pub stopped: bool,
    calibrates: bool,
    observer: Option<Observer>,
    host: Option<HostObserver>,
    /// Samples the CPU use of this process.
    own: Option<HostObserver>,
}

impl Session {
    /// Passes an event to all sinks.
    pub fn emit(&mut self, event: &Event) {
        self.sinks.emit(event, &self.control);
    }

    /// Emits a note for the user.
    pub fn note(&mut self, text: impl Into<String>) {
        self.sinks.note(self.start, text.into(), &self.control);
    }

    /// Nanoseconds since the run's start.
    pub fn elapsed_ns(&self) -> u64 {
        clock::now().since(self.start)
    }

    /// Whether the run cannot continue.
    pub fn is_over(&self) -> bool {
        self.ended.is_early() || self.control.is_stopped()
    }

    /// Runs one phase, and passes its seconds to `sink` too.
    ///
    /// # Errors
    /// When the phase cannot be run at all.
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
            sinks: &mut self.sinks,
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
        self.sinks.ended(&finished, &self.control);
        self.ended = self.ended.max(finished.ended);
        Ok(finished)
    }

    /// Waits before the first phase until it is time to connect. Returns at once without a scheduled start.
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
        // The wall clock may have been set during the wait.
        self.system.begin_at(clock::at_wall(start_at_ms));
    }

    /// CPU time of the system's processes under load, in nanoseconds, if known.
    pub fn server_cpu_ns(&self) -> Option<u64> {
        Some(self.server_cpu_ns).filter(|used_ns| *used_ns > 0 && !self.server_restarted)
    }

    /// Prepares the requirements of one phase before its load.
    ///
    /// # Errors
    /// When the system refuses to prepare them.
    pub fn prepare(&mut self, phase: usize) -> Outcome<()> {
        let (sinks, control, start) = (&mut self.sinks, &self.control, self.start);
        self.system.prepare(&self.plan, phase, &mut |text| sinks.note(start, text, control))
    }

    /// The samples of the server's machine since a moment of the run, in order. Empty unless the server is on this machine.
    pub fn host_since(&self, from_ns: u64) -> Vec<HostSample> {
        self.host.as_ref().map(|host| host.since(from_ns)).unwrap_or_default()
    }

    /// The samples of this process since a moment of the run, in order.
    pub fn own_since(&self, from_ns: u64) -> Vec<HostSample> {
        self.own.as_ref().map(|own| own.since(from_ns)).unwrap_or_default()
    }

    /// Ends the workers, so that the ledger holds everything that was sent.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn close(&mut self) -> anyhow::Result<()> {
        self.stopped = self.control.is_stopped();
        self.ping();
        if !self.is_over() {
            self.measure_ceiling()?;
            self.measure_floor();
        }
        let seen = self.observer.take().map(Observer::stop).unwrap_or_default();
        self.sinks.look(&mut self.samples, seen, &self.control);
        self.spread = self.system.shares();
        self.system.close(&self.sinks.dir.ledger())
    }

    /// Reads the written documents back. Does not wait again for a server that did not return during the load.
    pub fn audit(&mut self) -> Option<Integrity> {
        let given_up = self.ended == Ended::Unreachable || self.stopped;
        let limit = self.loaded.scenario.unreachable_for;
        let patience = if given_up { Duration::ZERO } else { Duration::from_nanos(limit.as_ns()) };
        let watch = ReadBack::new(&mut self.sinks, &self.control, self.start);
        watch.during(|progress| self.system.audit(patience, progress))
    }

    /// Whether the load sends operations or requests.
    pub const fn sends(&self) -> Sends {
        sends(&self.loaded)
    }

    /// Measures the round trip, and for a shard the offset of the server's clock.
    fn ping(&mut self) {
        self.pings_ns.extend(self.system.ping_ns());
        if self.shard == Share::WHOLE {
            return;
        }
        match (&mut self.server_clock, self.system.server_clock()) {
            (Some(known), Some(found)) => known.offsets.extend(found.offsets),
            (none, found) => *none = none.take().or(found),
        }
    }

    fn measure_ceiling(&mut self) -> anyhow::Result<()> {
        let Some(phase) = self.plan.phases.last().filter(|_| self.calibrates).cloned() else { return Ok(()) };
        let ceiling = self.system.ceiling(&phase, &self.control)?;
        self.ceilings.extend(Some(ceiling).filter(|(operations, _)| *operations > 0.0));
        Ok(())
    }

    /// Replays the last load, if it was open, while other threads use as many cores as the server did.
    fn measure_floor(&mut self) {
        let searched = self.floor_phase.take();
        let bound_ns = self.latency_bound_ns(searched.is_some());
        let phase = searched.or_else(|| self.plan.phases.last().cloned());
        let is_open = |phase: &Phase| phase.loads.iter().all(|load| load.arrivals.is_open());
        let Some(phase) = phase.filter(|phase| self.calibrates && is_open(phase)) else { return };
        let replay = Replay {
            phase: &phase,
            cores: self.watched_cores().unwrap_or(0.0),
            answer_bytes: self.mean_answer_bytes(),
            spin: self.system.workers().spin,
        };
        match self.system.floor(&replay, &self.control) {
            Ok(floor) => self.floor = (floor.count > 0).then_some((floor, bound_ns)),
            Err(error) => self.note(format!("the tool's latency floor was not measured: {error:#}")),
        }
    }

    /// The cores that the system's processes used in the last phase. `None` if unknown.
    pub fn watched_cores(&self) -> Option<f64> {
        let used_ns = self.watched_cpu_ns.filter(|used_ns| *used_ns > 0)?;
        Some(used_ns as f64 / 1e9 / self.watched.length_s().max(f64::MIN_POSITIVE))
    }

    /// The mean size of the answers so far, at most [`ANSWER_BYTES_MAX`].
    fn mean_answer_bytes(&self) -> usize {
        let (received, answers) = self.summary.tallies().fold((0, 0), |(bytes, answers), (_, tally)| {
            (bytes + tally.bytes_received, answers + tally.completed())
        });
        usize::try_from(received / answers.max(1)).unwrap_or(ANSWER_BYTES_MAX).min(ANSWER_BYTES_MAX)
    }

    /// The lowest bound on a high percentile or the maximum of a latency, in nanoseconds. A search has the bound in its objective,
    /// any other run in its expectations.
    fn latency_bound_ns(&self, is_searched: bool) -> Option<u64> {
        if is_searched {
            let bounds = self.plan.objective.bounds.iter();
            let latencies = bounds.filter(|(metric, _)| *metric != Metric::Errors);
            return latencies.filter_map(|(_, threshold)| threshold.tail_bound_ns()).min();
        }
        let is_latency = |wanted: &&Wanted| matches!(wanted.metric.name, "response" | "service");
        let latencies = self.plan.expectations.iter().filter(is_latency);
        latencies.filter_map(|it| it.threshold.tail_bound_ns()).min()
    }

    /// Adds the CPU time that the system's processes used since `before_ns`. It is unknown for a process that restarted.
    fn count_server_cpu(&mut self, pids: &[u32], before_ns: u64) {
        self.watched_cpu_ns = (self.system.pids() == pids).then(|| cpu_ns(pids).saturating_sub(before_ns));
        match self.watched_cpu_ns {
            Some(used_ns) => self.server_cpu_ns += used_ns,
            None => self.server_restarted = true,
        }
    }
}

/// The run ID as 14 hex digits: every receipt starts with it.
pub fn id(run: RunId) -> String {
    run.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new ID for a run that starts now.
pub fn new_run(started_ms: u64) -> RunId {
    let mut tag = [0; 3];
    // Without random bytes, the low bits of the clock are used; the time also distinguishes runs.
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
