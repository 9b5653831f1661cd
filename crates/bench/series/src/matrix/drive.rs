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
use plimsoll_measure::matrix::{Matrix as Results, State, worse};
use plimsoll_measure::run::{Run, Verdict};
use plimsoll_measure::size::Bytes;
use plimsoll_report::matrix as report;
use plimsoll_report::units::duration;

use super::environment::Stage;
use super::prepare::{Prepared, Settings};
use crate::matrix::dir::MatrixDir;
use crate::matrix::runs::{Planned, Todo, is_cut, notes};
use plimsoll_run::console::Console;
use plimsoll_run::event_sinks::Readers;
use plimsoll_run::exit::{Exit, Failure, Outcome, worst_of_runs};
use plimsoll_run::lifecycle::{self, Closed};
use plimsoll_run::run_dir::{self, RunDir};
use plimsoll_run::server_provisioning::Manner;
use plimsoll_run::session::{Opening, Session, new_run};
use plimsoll_run::system::Ground;
use plimsoll_scenario::Scenario;

/// After so many runs in a row that could not reach the server, the others are not tried.
const SERVER_FAILURES_MAX: u32 = 3;
/// A run without a limit of time is not begun with less than this left of the bound, in seconds.
const LEFT_S_MIN: f64 = 1.0;

/// A matrix that is being made.
pub struct Drive<'a> {
    prepared: Prepared<'a>,
    settings: &'a Settings,
    dir: MatrixDir,
    results: Results,
    stage: Stage,
    runtime: tokio::runtime::Runtime,
    flag: Arc<AtomicBool>,
    started: Instant,
    console: &'static dyn Console,
}

/// A matrix whose runs are made, or that was cut short.
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

impl<'a> Drive<'a> {
    /// Makes the directory, finds or starts what all runs share, and looks whether there is room for them.
    ///
    /// # Errors
    /// What cannot be reached or started, and what is in the way.
    pub fn start(mut prepared: Prepared<'a>, settings: &'a Settings, flag: Arc<AtomicBool>) -> Outcome<Self> {
        let console = settings.load.console;
        let runtime = lifecycle::runtime()?;
        // One that is complete is told again, on whatever machine, and needs no server.
        let manner = manner(&prepared.loaded.scenario, console);
        let is_complete = prepared.to_make().next().is_none();
        let stage = if is_complete { Stage::Apart } else { Stage::open(&prepared, manner, &runtime)? };
        let (dir, mut results) = match prepared.earlier.take() {
            Some(earlier) => earlier,
            None => begin(&prepared, settings)?,
        };
        results.show.clone_from(&prepared.matrix.show);
        dir.scenario(&prepared.loaded.resolved()?)?;
        let started = clock::now();
        let mut drive = Self { prepared, settings, dir, results, stage, runtime, flag, started, console };
        drive.recall();
        drive.save()?;
        Ok(drive)
    }

    /// Runs of an earlier matrix keep what is known of them; the others are planned anew.
    fn recall(&mut self) {
        for (run, todo) in self.prepared.runs.iter().zip(&self.prepared.todo) {
            let planned = self.prepared.planned(run);
            let Some(known) = self.results.runs.iter_mut().find(|known| known.number == run.number) else {
                continue;
            };
            if *todo != Todo::Keep {
                *known = planned;
            } else if let Some(summary) = self.dir.summary(&run.directory) {
                known.state = State::Done;
                known.exit.get_or_insert(deserved(&summary).code());
                known.notes = notes(&summary, &self.prepared.expanded.cells[run.cell].plan);
                (known.verdict, known.reasons) = (Some(summary.verdict), summary.reasons);
            }
        }
    }

    /// Makes every run that is to be made, until somebody asks to stop or the time is up.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn make_all(&mut self) -> Outcome<()> {
        let mut failures = 0;
        for index in 0..self.prepared.runs.len() {
            if self.prepared.todo[index] == Todo::Keep {
                continue;
            }
            if self.is_over(index) || failures >= SERVER_FAILURES_MAX {
                break;
            }
            let exit = self.make(index)?;
            failures = if exit == Exit::Server { failures + 1 } else { 0 };
        }
        if failures >= SERVER_FAILURES_MAX {
            self.console.say(&format!(
                "The server was lost in {failures} runs in a row: the others are not tried. When it is back, go on with \
                 --resume {}",
                self.dir.path().display()
            ));
        }
        Ok(())
    }

    /// Whether somebody asked to stop, or the bound leaves no time for the run.
    fn is_over(&self, index: usize) -> bool {
        let share = self.prepared.shares[self.prepared.runs[index].cell];
        let is_late = share.load_s.is_none() && self.left_s() < LEFT_S_MIN;
        if is_late {
            self.console.say(&format!(
                "The {} of matrix.bounds.time are used up: raise the bound with --set matrix.bounds.time=… and go on with \
                 --resume {}",
                duration(self.prepared.matrix.bounds.time.as_secs()),
                self.dir.path().display()
            ));
        }
        is_late || self.flag.load(Ordering::Relaxed)
    }

    fn left_s(&self) -> f64 {
        self.prepared.matrix.bounds.time.as_secs() - clock::now().since(self.started) as f64 / 1e9
    }

    /// Makes one run and writes down what came of it. One that cannot be made ends nothing else.
    fn make(&mut self, index: usize) -> Outcome<Exit> {
        let planned = self.prepared.runs[index].clone();
        if self.prepared.todo[index] == Todo::Again {
            self.dir.put_aside(&planned.directory)?;
        }
        self.results.runs[index].state = State::Begun;
        self.save()?;
        let label = self.prepared.expanded.cells[planned.cell].label.clone();
        self.console.say(&format!("\n[{}/{}] {label}", planned.number, self.prepared.runs.len()));
        let made = self.load(&planned);
        let exit = match made {
            Ok(closed) => self.record(index, closed),
            Err(failure) => self.record_failure(index, &failure),
        };
        self.save()?;
        Ok(exit)
    }

    /// The load of one run, from its first connection to its closed books.
    fn load(&self, planned: &Planned) -> Outcome<Closed> {
        let cell = &self.prepared.expanded.cells[planned.cell];
        let mut loaded = cell.loaded.clone();
        if self.prepared.venue.is_audited() {
            loaded.scenario.collection.clone_from(&planned.collection);
        }
        let path = self.dir.path().join(&planned.directory);
        let started_ms = clock::wall_ms();
        let dir = RunDir::create(Some(&path), &loaded.name, started_ms)?;
        let (run, shard) = (new_run(started_ms), Shard::WHOLE);
        let control = Control::listening(self.flag.clone());
        let open = || {
            let (ground, subject) =
                (Ground { loaded: &loaded, plan: &cell.plan, run, shard }, self.prepared.subject(planned));
            let manner = manner(&loaded.scenario, self.console);
            let system = self.stage.system(subject.as_ref(), ground, &dir, manner, &control)?;
            let (plan, readers) = (cell.plan.clone(), Readers::new(dir, self.console));
            let canary = self.prepared.canary;
            Session::open(Opening { plan, system, readers, control, shard, run, started_ms, loaded, canary })
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
        let plan = &self.prepared.expanded.cells[planned.cell].plan;
        let (summary, exit) = (closed.run.clone(), closed.exit);
        let cut = is_cut(&summary, plan);
        let subject = self.prepared.subject(planned);
        let left = self.stage.clear(planned, closed, subject.as_ref(), self.prepared.keep, &self.runtime);
        let run = &mut self.results.runs[index];
        run.state = if summary.interrupted || cut { State::Interrupted } else { State::Done };
        run.verdict = Some(summary.verdict);
        run.reasons.clone_from(&summary.reasons);
        run.notes = notes(&summary, plan);
        if cut && !summary.interrupted {
            run.verdict = Some(worse(Verdict::Invalid, summary.verdict));
            run.reasons.push("cut off before its end".to_owned());
        }
        (run.exit, run.size) = (Some(exit.code()), left.size);
        self.results.server = summary.server.clone();
        self.console.say(&format!("      {}", report::brief(&summary)));
        left.said.iter().for_each(|text| self.console.say(&format!("      {text}")));
        exit
    }

    /// Writes down why a run could not be made; one that somebody stopped before its load is as if never begun.
    fn record_failure(&mut self, index: usize, failure: &Failure) -> Exit {
        let planned = &self.prepared.runs[index];
        let subject = self.prepared.subject(planned);
        let forgotten = self.stage.forget(planned, subject.as_ref(), &self.runtime);
        let run = &mut self.results.runs[index];
        if failure.exit == Exit::Interrupted {
            run.state = State::Planned;
        } else {
            let reason = format!("{:#}", failure.error);
            self.console.warn(&format!("      it could not be made: {reason}"));
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

    /// Says what there is, and ends what all runs shared.
    ///
    /// # Errors
    /// When what was kept cannot be moved.
    pub fn end(self) -> Outcome<Finished> {
        let Self { settings, dir, results, stage, flag, .. } = self;
        if settings.load.keep {
            stage.keep(dir.path())?;
        }
        let is_cut = results.runs.iter().any(|run| matches!(run.state, State::Planned | State::Interrupted));
        let ended = (is_cut || flag.load(Ordering::Relaxed)).then_some(Exit::Interrupted);
        let exits = results.runs.iter().filter_map(|run| run.exit.and_then(Exit::of)).chain(ended);
        let exit = worst_of_runs(&exits.collect::<Vec<_>>());
        Ok(Finished { results, path: dir.path().to_owned(), is_cut, exit })
    }
}

/// How servers and services of a scenario are found and started.
fn manner(scenario: &Scenario, console: &'static dyn Console) -> Manner {
    let timeout = Duration::from_nanos(scenario.timeout.as_ns());
    Manner { timeout, console, cache_bytes: scenario.cache.map(Bytes::get) }
}

/// The exit code of a run of which only its summary is known.
fn deserved(run: &Run) -> Exit {
    let unheld = run.expectations.iter().any(|expectation| !expectation.held);
    match &run.integrity {
        Some(integrity) if !integrity.holds() => Exit::Integrity,
        Some(integrity) if !integrity.is_known() => Exit::Server,
        _ if unheld || run.aborted.is_some() => Exit::Expectation,
        _ => Exit::Held,
    }
}

fn begin(prepared: &Prepared<'_>, settings: &Settings) -> anyhow::Result<(MatrixDir, Results)> {
    let mut results = prepared.results();
    let dir = MatrixDir::create(settings.load.out.as_deref(), &prepared.loaded.name, results.started_ms)?;
    results.environment = machine::environment(dir.path());
    Ok((dir, results))
}

/// A phase without a limit of time gets what the matrix has left.
fn limited(phase: &Phase, left_s: f64) -> Phase {
    let mut phase = phase.clone();
    let left = Span::from_ns((left_s.max(LEFT_S_MIN) * 1e9) as u64);
    phase.stop.duration.get_or_insert(left);
    phase
}
