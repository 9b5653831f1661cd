//! Makes the runs of a matrix one after the other, and saves the results after each.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_host::machine;
use plimsoll_load::arrivals::Share as Shard;
use plimsoll_load::phase::Phase;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::duration::Span;
use plimsoll_measure::matrix::{CellRun, Matrix as Results, State, worse};
use plimsoll_measure::run::{Run, Verdict};
use plimsoll_measure::size::Bytes;
use plimsoll_report::matrix as report;
use plimsoll_report::units::duration;

use super::environment::Environment;
use super::prepare::{Prepared, Settings};
use super::runs::{cell, is_cut, notes};
use crate::directory::{SeriesDir, check_vacant};
use crate::drive::{Next, Series, make_all};
use plimsoll_run::console::Console;
use plimsoll_run::event_sinks::EventSinks;
use plimsoll_run::exit::{Deserves, Exit, Failure, Outcome, worst_of_runs};
use plimsoll_run::lifecycle::{self, Closed};
use plimsoll_run::run_dir::{self, RunDir};
use plimsoll_run::server_provisioning::StartOptions;
use plimsoll_run::session::{Opening, Session, new_run};
use plimsoll_run::system::{Isolation, RunContext};
use plimsoll_scenario::Scenario;

/// The resolved scenario, in the directory of the matrix.
const SCENARIO: &str = "scenario.yaml";
/// After this many runs lose the server in a row, the rest is skipped.
const SERVER_FAILURES_MAX: u32 = 3;
/// The minimum remaining time for a run without a duration, in seconds.
const LEFT_S_MIN: f64 = 1.0;

/// A matrix in progress.
struct Drive<'a> {
    prepared: Prepared<'a>,
    dir: SeriesDir,
    results: Results,
    environment: Environment,
    flag: Arc<AtomicBool>,
    started: Instant,
    /// The number of latest consecutive runs that lost the server.
    failures: u32,
    console: &'static dyn Console,
}

/// A matrix whose runs are done, or that was interrupted.
#[derive(Debug)]
pub struct Finished {
    /// The results of all runs.
    pub results: Results,
    /// Its directory.
    pub path: PathBuf,
    /// Whether runs are missing.
    pub is_cut: bool,
    /// The worst exit of its runs.
    pub exit: Exit,
}

/// Makes the missing runs of a matrix until `flag` is set or its time is up.
///
/// # Errors
/// When the server cannot be reached or started, a collection is not empty, a database exists, or a file cannot be written.
pub fn make(prepared: Prepared<'_>, settings: &Settings, flag: Arc<AtomicBool>) -> Outcome<Finished> {
    let mut drive = Drive::start(prepared, settings, flag)?;
    make_all(&mut drive)?;
    drive.end()
}

impl Series for Drive<'_> {
    fn dir(&self) -> &SeriesDir {
        &self.dir
    }

    fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    fn pending(&self) -> Vec<(usize, String)> {
        self.prepared.missing().map(|(index, run)| (index, run.directory.clone())).collect()
    }

    /// Makes one run and records its result. A failed run does not end the matrix.
    fn make(&mut self, run: usize) -> Outcome<Next> {
        let planned = self.prepared.runs[run].clone();
        let estimate = self.prepared.estimates[cell(&planned)];
        let resume = format!("continue with --resume {}", self.dir.path().display());
        if estimate.load_s.is_none() && self.left_s() < LEFT_S_MIN {
            let bound = duration(self.prepared.matrix.bounds.time.as_secs());
            self.console.say(&format!(
                "The {bound} of matrix.bounds.time are used up: raise the bound with --set matrix.bounds.time=… and {resume}"
            ));
            return Ok(Next::Stop);
        }
        self.results.runs[run].state = State::Begun;
        self.save()?;
        let label = &self.prepared.expanded.cells[cell(&planned)].label;
        self.console.say(&format!("\n[{}/{}] {label}", planned.number, self.prepared.runs.len()));
        let exit = match self.load(&planned) {
            Ok(closed) => self.record(run, closed),
            Err(failure) => self.record_failure(run, &failure),
        };
        self.save()?;
        self.failures = if exit == Exit::Server { self.failures + 1 } else { 0 };
        if self.failures < SERVER_FAILURES_MAX {
            return Ok(Next::Continue);
        }
        self.console.say(&format!(
            "The server was lost in {} runs in a row: the others are not tried. When it is back, {resume}",
            self.failures
        ));
        Ok(Next::Stop)
    }
}

impl<'a> Drive<'a> {
    /// Creates the directory, and finds or starts the shared server.
    fn start(mut prepared: Prepared<'a>, settings: &Settings, flag: Arc<AtomicBool>) -> Outcome<Self> {
        let console = settings.load.console;
        if prepared.earlier.is_none() {
            check_vacant::<Results>(settings.load.out.as_deref()).deserves(Exit::Usage)?;
        }
        let environment = Environment::open(&prepared, start(&prepared.loaded.scenario, console))?;
        let (dir, mut results) = match prepared.earlier.take() {
            Some(earlier) => earlier,
            None => begin(&prepared, settings)?,
        };
        results.show.clone_from(&prepared.matrix.show);
        dir.replace_private(SCENARIO, &prepared.loaded.resolved()?)?;
        let started = clock::now();
        let mut drive = Self { prepared, dir, results, environment, flag, started, failures: 0, console };
        drive.recall();
        drive.save()?;
        Ok(drive)
    }

    /// Restores the results of completed runs, and resets the others.
    fn recall(&mut self) {
        for (run, made) in self.prepared.runs.iter().zip(&self.prepared.made) {
            let Some(known) = self.results.runs.iter_mut().find(|known| known.number == run.number) else {
                continue;
            };
            if !made {
                known.clone_from(run);
            } else if let Some(summary) = self.dir.summary(&run.directory) {
                known.state = State::Done;
                known.exit.get_or_insert(deserved(&summary).code());
                known.notes = notes(&summary, &self.prepared.expanded.cells[cell(run)].plan);
                (known.verdict, known.reasons) = (Some(summary.verdict), summary.reasons);
            }
        }
    }

    /// The rest of the time bound, in seconds.
    fn left_s(&self) -> f64 {
        self.prepared.matrix.bounds.time.as_secs() - clock::now().since(self.started) as f64 / 1e9
    }

    /// Makes one run, from its first connection to its audit.
    fn load(&self, planned: &CellRun) -> Outcome<Closed> {
        let cell = &self.prepared.expanded.cells[cell(planned)];
        let mut loaded = cell.loaded.clone();
        if self.prepared.isolation == Isolation::Collection {
            loaded.scenario.collection.clone_from(&planned.collection);
        }
        let path = self.dir.path().join(&planned.directory);
        let started_ms = clock::wall_ms();
        let dir = RunDir::create(Some(&path), &loaded.name, started_ms)?;
        let (run, shard) = (new_run(started_ms), Shard::WHOLE);
        let control = Control::listening(self.flag.clone());
        let open = || {
            let (context, subject) = (
                RunContext { loaded: &loaded, plan: &cell.plan, run, shard },
                self.prepared.subject(planned),
            );
            let start = start(&loaded.scenario, self.console);
            let system = self.environment.system(subject.as_ref(), context, &dir, start, &control)?;
            let (plan, sinks) = (cell.plan.clone(), EventSinks::new(dir, self.console));
            let calibrates = self.prepared.calibrate;
            Session::open(Opening {
                plan,
                system,
                sinks,
                control,
                shard,
                run,
                started_ms,
                loaded,
                calibrates,
            })
        };
        let mut session = open().inspect_err(|_| run_dir::abandon(&path))?;
        for phase in &cell.plan.phases {
            if !session.is_over() {
                lifecycle::one_phase(&mut session, &limited(phase, self.left_s()))?;
            }
        }
        lifecycle::finish(session, "run", None)
    }

    fn record(&mut self, index: usize, closed: Closed) -> Exit {
        let planned = &self.prepared.runs[index];
        let plan = &self.prepared.expanded.cells[cell(planned)].plan;
        let (summary, exit) = (closed.run.clone(), closed.exit);
        let cut = is_cut(&summary, plan);
        let subject = self.prepared.subject(planned);
        let remains = self.environment.clear(planned, closed, subject.as_ref());
        let run = &mut self.results.runs[index];
        run.state = if summary.interrupted || cut { State::Interrupted } else { State::Done };
        run.verdict = Some(summary.verdict);
        run.reasons.clone_from(&summary.reasons);
        run.notes = notes(&summary, plan);
        if cut && !summary.interrupted {
            run.verdict = Some(worse(Verdict::Invalid, summary.verdict));
            run.reasons.push("cut off before its end".to_owned());
        }
        (run.exit, run.size) = (Some(exit.code()), remains.size);
        self.results.server = summary.server.clone();
        self.console.say(&format!("      {}", report::brief(&summary)));
        remains.note.iter().for_each(|text| self.console.say(&format!("      {text}")));
        exit
    }

    /// Records the reason of a failed run. A run that the user stopped before its load stays planned.
    fn record_failure(&mut self, index: usize, failure: &Failure) -> Exit {
        let planned = &self.prepared.runs[index];
        let subject = self.prepared.subject(planned);
        let forgotten = self.environment.forget(planned, subject.as_ref());
        let run = &mut self.results.runs[index];
        if failure.exit == Exit::Interrupted {
            run.state = State::Planned;
        } else {
            let reason = format!("{:#}", failure.error);
            self.console.warn(&format!("      it could not be completed: {reason}"));
            (run.state, run.exit) = (State::Failed, Some(failure.exit.code()));
            run.reasons = vec![reason];
        }
        if let Err(error) = forgotten {
            self.console.warn(&format!("      {error:#}"));
        }
        failure.exit
    }

    fn save(&mut self) -> Outcome<()> {
        let dir = &self.dir;
        self.results.conclude(|run| dir.summary(&run.directory));
        dir.save(&self.results)?;
        Ok(())
    }

    /// Ends the shared server, and combines the exits.
    fn end(self) -> Outcome<Finished> {
        let Self { dir, results, environment, flag, .. } = self;
        environment.end_all(dir.path())?;
        let is_cut = results.runs.iter().any(|run| matches!(run.state, State::Planned | State::Interrupted));
        let ended = (is_cut || flag.load(Ordering::Relaxed)).then_some(Exit::Interrupted);
        let exits = results.runs.iter().filter_map(|run| run.exit.and_then(Exit::of)).chain(ended);
        let exit = worst_of_runs(&exits.collect::<Vec<_>>());
        Ok(Finished { results, path: dir.path().to_owned(), is_cut, exit })
    }
}

/// The options for finding and starting the servers and services of a scenario.
fn start(scenario: &Scenario, console: &'static dyn Console) -> StartOptions {
    let timeout = Duration::from_nanos(scenario.timeout.as_ns());
    StartOptions {
        timeout,
        console,
        cache_bytes: scenario.cache.map(Bytes::get),
        power_loss: scenario.power_loss(),
    }
}

/// The exit code of a run, from its summary alone.
fn deserved(run: &Run) -> Exit {
    match &run.integrity {
        Some(integrity) if !integrity.holds() => Exit::Integrity,
        Some(integrity) if !integrity.is_whole() => Exit::Server,
        _ if run.verdict == Verdict::Fail => Exit::Expectation,
        _ => Exit::Held,
    }
}

fn begin(prepared: &Prepared<'_>, settings: &Settings) -> anyhow::Result<(SeriesDir, Results)> {
    let mut results = prepared.results();
    let (out, name) = (settings.load.out.as_deref(), &prepared.loaded.name);
    let dir = SeriesDir::create::<Results>(out, name, results.started_ms)?;
    results.environment = machine::environment(dir.path());
    Ok((dir, results))
}

/// A phase limited to the rest of the time bound, if it has no duration.
fn limited(phase: &Phase, left_s: f64) -> Phase {
    let mut phase = phase.clone();
    let left = Span::from_ns((left_s.max(LEFT_S_MIN) * 1e9) as u64);
    phase.stop.duration.get_or_insert(left);
    phase
}
