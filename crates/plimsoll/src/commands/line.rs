//! Implements `plimsoll line`: searches for the load line.

use std::error::Error;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use plimsoll_load::arrivals::Arrivals;
use plimsoll_load::background_load::BackgroundLoad;
use plimsoll_load::due_second::{DueSeconds, Limit};
use plimsoll_load::engine::Second;
use plimsoll_load::line::{LineSearch, Measured, Prober, SETTLE_S, find};
use plimsoll_load::phase::{Load, Phase};
use plimsoll_load::search::{Attempt, BUDGET_S, Settings};
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Ended;
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::duration::Span;
use plimsoll_measure::event::{Event, Sends};
use plimsoll_measure::line::{Drift, Line, Probe, Stage};
use plimsoll_measure::run::WarmUp;
use plimsoll_measure::sample::ServerSample;

use super::closing;
use crate::cli::LineArgs;
use crate::registry::Registry;
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_run::session::Session;
use plimsoll_run::system::cpu_ns;
use plimsoll_scenario::plan::{Searched, closed};

/// The name of the phase before the search.
const WARM_UP: &str = "warm-up";
/// Length of the closed load that warms up and determines the first rate, in seconds.
const WARM_UP_S: u64 = 8;
/// The share of the closed rate at which the climb starts.
const START_SHARE: f64 = 0.35;
/// The pause between two probes, in which the server's own queues become empty.
const PAUSE: Duration = Duration::from_millis(500);
/// The shortest wait for the answers of a trial.
const DRAIN_MIN: Span = Span::from_secs(1);
/// The bounds of `--budget` and `--soak`.
const BUDGET: (Span, Span) = (Span::from_secs(60), Span::from_secs(3600));
const SOAK: (Span, Span) = (Span::from_secs(10), Span::from_secs(86_400));

/// Searches for the load line and audits all writes.
///
/// # Errors
/// When the search cannot be done.
pub fn line(args: &LineArgs, registry: &Registry) -> Outcome<Exit> {
    let times = Times::of(args).deserves(Exit::Usage)?;
    let mut session = lifecycle::open(&args.scenario, &args.load.options(registry.systems))?;
    let searched = session.plan.searched().deserves(Exit::Usage)?;
    searched.note().into_iter().for_each(|note| session.note(note));
    lifecycle::prepare(&mut session)?;
    let start = warm_up(&mut session, &searched)?;
    let line =
        if session.is_over() { Line::default() } else { search(&mut session, &searched, start, times)? };
    let arrivals = Some(arrivals_name(&searched.load.arrivals).to_owned());
    let line = Line { load: searched.load.name.clone(), background: searched.described(), arrivals, ..line };
    closing::close(session, &args.load, "line", Some(line))
}

/// Brings the server to a steady state under a closed load; returns the first rate of the climb.
fn warm_up(session: &mut Session, searched: &Searched) -> Outcome<f64> {
    let connections = session.plan.search_connections(&session.loaded.scenario);
    let loads = searched.loads(closed(&searched.load, connections));
    let phase = phase(session, WARM_UP, loads, WARM_UP_S);
    let at_ns = session.elapsed_ns();
    session.emit(&Event::Phase {
        at_ns,
        name: phase.name.clone(),
        duration_s: Some(WARM_UP_S as f64),
        documents: None,
    });
    let (mut late, mut late_ns) = (0, 0);
    session.run(&phase, |second| {
        if second.from_ns >= WARM_UP_S / 2 * SECOND_NS {
            late += second.only(0, &searched.load).tallies.iter().map(|tally| tally.count).sum::<u64>();
            late_ns += second.to_ns - second.from_ns;
        }
    })?;
    if let Some(WarmUp::NotSteady { reason }) =
        session.summary.phases().last().map(|phase| phase.warm_up.clone())
    {
        session.note(format!("the warm-up of {WARM_UP_S} s found no steady state: {reason}"));
    }
    let reached = late as f64 / (late_ns as f64 / SECOND_NS as f64).max(f64::MIN_POSITIVE);
    Ok(session.loaded.scenario.line.start.unwrap_or(reached * START_SHARE).max(1.0))
}

/// The times of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    budget_s: f64,
    soak_s: Option<u64>,
}

impl Times {
    /// Checks the options.
    fn of(args: &LineArgs) -> anyhow::Result<Self> {
        let within = |name: &str, span: Span, (min, max): (Span, Span)| {
            let is_valid = (min.as_ns()..=max.as_ns()).contains(&span.as_ns());
            if is_valid {
                Ok(span.as_ns() / SECOND_NS)
            } else {
                Err(anyhow!("--{name} {span}: give {min} to {max}"))
            }
        };
        let budget = args.budget.map(|span| within("budget", span, BUDGET)).transpose()?;
        let soak_s = args.soak.map(|span| within("soak", span, SOAK)).transpose()?;
        Ok(Self { budget_s: budget.map_or(BUDGET_S, |seconds| seconds as f64), soak_s })
    }
}

fn search(session: &mut Session, searched: &Searched, start: f64, times: Times) -> Outcome<Line> {
    let objective = session.plan.objective.clone();
    let documents = session.plan.documents_per_operation();
    let limits = objective.limits();
    let line_search = LineSearch {
        settings: Settings { start, budget_s: times.budget_s, seed: session.loaded.scenario.seed },
        objective,
        rules: &plimsoll_mongo::bottlenecks::RULES,
        documents_per_operation: documents,
        unit: unit(session).to_owned(),
        soak_s: times.soak_s,
    };
    let connections = session.plan.search_connections(&session.loaded.scenario);
    let unit = line_search.unit.clone();
    let mut prober =
        SessionProber { session, searched, connections, documents, unit, limits, acknowledged: Vec::new() };
    let mut line = find(&line_search, &mut prober)
        .map_err(|error| Failure { exit: Exit::Server, error: anyhow!(error) })?;
    line.drift = line.drift.map(|drift| prober.with_documents(drift));
    if let Some(rate) = line.rate {
        let phase = prober.phase(rate / documents, WARM_UP_S);
        session.floor_phase = Some(phase);
    }
    line.notes.extend(warm_up_note(session));
    line.notes.extend(checkpoint_note(session));
    Ok(line)
}

/// The arrivals of the trials: those of the scenario if they have a constant mean rate, and Poisson otherwise.
fn arriving(own: &Arrivals, rate: f64, connections: u32) -> Arrivals {
    match own {
        Arrivals::Constant { .. } => Arrivals::Constant { rate, connections },
        _ => Arrivals::Poisson { rate, connections },
    }
}

const fn arrivals_name(own: &Arrivals) -> &'static str {
    if matches!(own, Arrivals::Constant { .. }) { "constant" } else { "poisson" }
}

/// The unit of the line's rates.
fn unit(session: &Session) -> &'static str {
    match session.sends() {
        _ if session.plan.documents_per_operation() > 1.0 => "documents/s",
        Sends::Operations => "operations/s",
        Sends::Requests => "requests/s",
    }
}

/// Notes a warm-up without a steady state: the server may still have been changing.
fn warm_up_note(session: &Session) -> Option<String> {
    let warm_up = session.summary.phases().iter().find(|phase| phase.name == WARM_UP)?;
    match &warm_up.warm_up {
        WarmUp::Steady { .. } => None,
        WarmUp::NotAssessed => Some("the warm-up was too short to be assessed".to_owned()),
        WarmUp::NotSteady { reason } => {
            Some(format!("the warm-up of {WARM_UP_S} s found no steady state ({reason})"))
        }
    }
}

/// Notes a window without a full checkpoint cycle, which proves nothing about checkpoints.
fn checkpoint_note(session: &Session) -> Option<String> {
    let seen = session.samples.iter().filter_map(|sample| sample.checkpoints);
    let (first, last) = (seen.clone().min(), seen.max());
    let count = first.zip(last).map(|(first, last)| last - first);
    match count {
        Some(count) if count > 1 => None,
        Some(_) => {
            Some("the search contained no full checkpoint cycle; a larger --budget contains more".to_owned())
        }
        None => Some(
            "the server does not report its checkpoints: whether a window contained one is unknown"
                .to_owned(),
        ),
    }
}

fn phase(session: &Session, name: &str, loads: Vec<Load>, seconds: u64) -> Phase {
    Phase {
        name: name.to_owned(),
        key: None,
        loads,
        stop: Stop { duration: Some(Span::from_secs(seconds)), ..Stop::default() },
        drain: Span::from_secs(0),
        unreachable_for: session.loaded.scenario.unreachable_for,
        seed: session.loaded.scenario.seed,
        faults: Vec::new(),
        retry: session.loaded.scenario.retry,
        limits: Vec::new(),
    }
}

struct SessionProber<'a> {
    session: &'a mut Session,
    searched: &'a Searched,
    connections: u32,
    documents: f64,
    unit: String,
    limits: Vec<Limit>,
    /// For each trial around the estimate, the number of documents acknowledged before the trial.
    acknowledged: Vec<u64>,
}

impl Prober for SessionProber<'_> {
    fn probe(&mut self, attempt: &Attempt) -> Result<Measured, Box<dyn Error + Send + Sync>> {
        thread::sleep(PAUSE);
        let seconds = SETTLE_S + attempt.window_s as u64;
        let at_ns = self.session.elapsed_ns();
        let rate = attempt.rate * self.documents;
        let trying = Event::Trying {
            at_ns,
            stage: attempt.stage,
            rate,
            window_s: attempt.window_s,
            unit: self.unit.clone(),
        };
        self.session.emit(&trying);
        if matches!(attempt.stage, Stage::Estimate | Stage::Reference) {
            self.acknowledged.push(self.session.summary.acknowledged().1);
        }
        let name = name(attempt.stage, rate, &self.unit);
        let phase = Phase { name, ..self.phase(attempt.rate, seconds) };
        let background = self.searched.background.iter().map(background_load).collect();
        let mut measured =
            Measured { from_ns: at_ns, background, connections: self.connections, ..Measured::default() };
        let mut due = DueSeconds::default();
        let mut cpu = CpuMeter { pids: self.session.system.pids(), first: None, last: None };
        let finished = self.session.run(&phase, |second| {
            second.due_seconds.iter().for_each(|part| due.add(part));
            if second.to_ns <= seconds * SECOND_NS && second.to_ns > second.from_ns {
                cpu.look(second);
                measured.window.add(&second.only(0, &self.searched.load));
                let others = self.searched.background.iter().zip(&mut measured.background).zip(1..);
                others.for_each(|((load, seen), place)| seen.window.add(&second.only(place, load)));
            }
        });
        let finished = finished.map_err(|failure| failure.error)?;
        measured.due = due.of(0);
        measured.from_ns = finished.start.since(self.session.start);
        measured.server_cores = cpu.cores();
        measured.samples = self.seen_since(measured.from_ns);
        measured.host = self.session.host_since(measured.from_ns);
        measured.client = self.session.own_since(measured.from_ns);
        measured.over = over(self.session, finished.ended);
        Ok(measured)
    }

    fn probed(&mut self, probe: &Probe) {
        self.session.emit(&Event::Probed(probe.clone()));
    }
}

impl SessionProber<'_> {
    /// The phase of a trial at this rate, in operations per second.
    fn phase(&self, rate: f64, seconds: u64) -> Phase {
        let arrivals = arriving(&self.searched.load.arrivals, rate, self.connections);
        let loads = self.searched.loads(self.searched.load.arriving(arrivals));
        let phase = phase(self.session, "", loads, seconds);
        Phase { limits: self.limits.clone(), drain: drain(&self.limits), ..phase }
    }

    /// Adds the numbers of documents that were acknowledged by the middle of each half of the trials around the estimate.
    fn with_documents(&self, drift: Drift) -> Drift {
        let at = |share: usize| self.acknowledged.get(self.acknowledged.len() * share / 4).copied();
        Drift { documents_first: at(1), documents_second: at(3), ..drift }
    }

    /// The server samples since a moment of the run, in order.
    fn seen_since(&self, from_ns: u64) -> Vec<ServerSample> {
        let samples = &self.session.samples;
        samples[samples.partition_point(|sample| sample.at_ns < from_ns)..].to_vec()
    }
}

/// The time after a trial in which its overdue operations may still be sent. An operation that is not sent by then counts as over
/// every limit.
fn drain(limits: &[Limit]) -> Span {
    let longest = limits.iter().map(|limit| Span::from_ns(limit.ns)).max();
    longest.map_or(DRAIN_MIN, |longest| longest.max(DRAIN_MIN))
}

/// A background load without seconds yet.
fn background_load(load: &Load) -> BackgroundLoad {
    BackgroundLoad {
        name: load.name.clone(),
        connections: load.arrivals.connections(),
        ..BackgroundLoad::default()
    }
}

fn name(stage: Stage, rate: f64, unit: &str) -> String {
    let stage = match stage {
        Stage::WarmUp => "warm-up",
        Stage::Climb => "climb",
        Stage::Bisect => "bisect",
        Stage::Estimate => "estimate",
        Stage::Reference => "reference",
        Stage::Soak => "soak",
    };
    format!("{stage} {rate:.0} {unit}")
}

fn over(session: &Session, ended: Ended) -> Option<String> {
    match ended {
        Ended::Unreachable => Some("the server became unreachable".to_owned()),
        Ended::Interrupted => Some("it was interrupted".to_owned()),
        _ => session.control.is_stopped().then(|| "it was interrupted".to_owned()),
    }
}

/// Measures the CPU use of the system's processes over the judged part of a window.
struct CpuMeter {
    pids: Vec<u32>,
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl CpuMeter {
    fn look(&mut self, second: &Second) {
        if self.pids.is_empty() {
            return;
        }
        let seen = (second.to_ns, cpu_ns(&self.pids));
        if second.to_ns >= SETTLE_S * SECOND_NS {
            self.first.get_or_insert(seen);
            self.last = Some(seen);
        }
    }

    fn cores(&self) -> Option<f64> {
        let ((from_ns, before), (to_ns, after)) = (self.first?, self.last?);
        (to_ns > from_ns).then(|| after.saturating_sub(before) as f64 / (to_ns - from_ns) as f64)
    }
}
