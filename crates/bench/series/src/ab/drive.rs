//! Measures two sides in turns, one child run at a time, and compares them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_measure::clock;
use plimsoll_measure::comparison::sign_flip::PAIRS_MIN;
use plimsoll_measure::comparison::{Comparison, differing_keys};
use plimsoll_report::comparison::Links;
use plimsoll_report::matrix::brief;

use super::comparing::{Asked, check, weigh};
use super::dir::{self, Plan as Begun};
use super::gather::{Measured, read};
use super::namespace_setup::Rooms;
use super::prepare::{Prepared, Settings, prepare};
use super::turns::{Turn, Which, is_whole, turns};
use super::{child, refusal};
use crate::isolation::Venue;
use crate::matrix::dir::MatrixDir;
use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::lifecycle;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::{Manner, Place};

/// A comparison whose runs are made, or that was cut short.
#[derive(Debug)]
pub struct Finished {
    /// The comparison, if there are pairs enough.
    pub comparison: Option<Comparison>,
    /// Its directory.
    pub path: PathBuf,
    /// Pairs that are measured.
    pub pairs: usize,
    /// Why it was cut short; [`Exit::Held`] if it was not.
    pub ended: Exit,
}

/// Measures A and B in turns until all pairs are made or `flag` is set.
///
/// # Errors
/// What kept the comparison from being made.
pub fn measure(settings: &Settings, flag: Arc<AtomicBool>) -> Outcome<Finished> {
    let [a, b] = prepare(settings).deserves(Exit::Usage)?;
    let mut drive = Drive::start(settings, [a, b], flag)?;
    let ended = drive.make_all()?;
    drive.end(ended)
}

/// A comparison that is being made.
struct Drive<'a> {
    settings: &'a Settings,
    sides: [Prepared; 2],
    /// In what the runs of A and B may differ.
    varied: Vec<String>,
    path: PathBuf,
    runs: MatrixDir,
    runtime: tokio::runtime::Runtime,
    flag: Arc<AtomicBool>,
    console: &'static dyn Console,
}

impl<'a> Drive<'a> {
    /// Makes the directory, or opens an earlier one.
    fn start(settings: &'a Settings, mut sides: [Prepared; 2], flag: Arc<AtomicBool>) -> Outcome<Self> {
        let console = settings.load.console;
        let runtime = lifecycle::runtime()?;
        for side in &mut sides {
            let timeout = Duration::from_nanos(side.loaded.scenario.timeout.as_ns());
            if let Some(choice) = side.kept_server() {
                side.standing = Some(Place::open(choice, Manner::quiet(timeout), &runtime)?);
            }
        }
        let plan = Begun {
            scenario: sides[0].loaded.name.clone(),
            hashes: [&sides[0], &sides[1]].map(|side| side.loaded.hash()),
            a: sides[0].side.name(),
            b: sides[1].side.name(),
            servers: [&sides[0], &sides[1]].map(Prepared::servers),
        };
        let path = match &settings.resume {
            Some(path) => dir::check_plan(path, &plan).map(|()| path.clone()).deserves(Exit::Usage)?,
            None => {
                let name = format!("{}-ab", plan.scenario);
                let path = dir::create(settings.load.out.as_deref(), &name, clock::wall_ms())
                    .deserves(Exit::Usage)?;
                dir::keep_plan(&path, &plan)?;
                path
            }
        };
        let runs = MatrixDir::at(&path);
        console.say(&format!(
            "{}: {} pairs, {} runs in turns\n  A  {}\n  B  {}",
            sides[0].loaded.scenario.title,
            settings.pairs,
            2 * settings.pairs,
            plan.a,
            plan.b
        ));
        if sides.iter().any(|side| Venue::of(side.subject.as_ref()) == Venue::Service) {
            console.say("  A service that is there keeps what each run leaves: later runs find more in it.");
        }
        let varied = varied(&sides)?;
        Ok(Self { settings, sides, varied, path, runs, runtime, flag, console })
    }

    /// Makes every pair that is not there yet; tells how the runs ended.
    fn make_all(&mut self) -> Outcome<Exit> {
        // What an earlier comparison left may be such that no further run mends it.
        self.save()?;
        for pair in turns(self.settings.pairs) {
            if pair.iter().all(|turn| self.is_made(turn)) {
                continue;
            }
            // Half a pair is worth nothing: what the machine did has changed since.
            for turn in &pair {
                if self.path.join(&turn.directory).exists() {
                    self.runs.put_aside(&turn.directory)?;
                }
            }
            for turn in &pair {
                let ended = if self.is_over() { Exit::Interrupted } else { self.make(turn)? };
                if ended != Exit::Held {
                    return Ok(ended);
                }
            }
            self.save()?;
        }
        Ok(Exit::Held)
    }

    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn side(&self, which: Which) -> &Prepared {
        let [a, b] = &self.sides;
        if which == Which::A { a } else { b }
    }

    fn is_made(&self, turn: &Turn) -> bool {
        is_whole(&self.runs.found(&turn.directory), self.side(turn.which).phases)
    }

    /// Makes one run. What it measured counts, even where an expectation of the scenario does not hold.
    fn make(&self, turn: &Turn) -> Outcome<Exit> {
        let of = 2 * self.settings.pairs;
        self.console.say(&format!("\n[{}/{of}] pair {}, {}", turn.number, turn.pair, turn.which.letter()));
        let path = self.path.join(&turn.directory);
        let side = self.side(turn.which);
        let rooms = Rooms { side, number: turn.number, path: &path, runtime: &self.runtime };
        let stood = rooms.stands()?;
        let own = side.own.word(turn.number);
        let run = child::Run {
            scenario: &self.settings.scenario,
            path: &path,
            own: own.as_deref(),
            quiet: self.settings.quiet,
        };
        let code = child::wait(&run.start(side)?, &self.flag)?;
        let run = run_dir::read_run(&path);
        if !stood {
            rooms.clear(run.as_ref().ok())?;
        }
        let Ok(run) = run else {
            // One that was asked to end before it could hear that has no code.
            let none = if self.is_over() { Exit::Interrupted } else { Exit::Failed };
            let exit = code.and_then(Exit::of).filter(|exit| *exit != Exit::Held).unwrap_or(none);
            if exit != Exit::Interrupted {
                self.console
                    .warn(&format!("      the run of {} could not be made: see above", turn.which.letter()));
            }
            return Ok(exit);
        };
        self.console.say(&format!("      {}", brief(&run)));
        if let Some(reason) = &run.aborted {
            let letter = turn.which.letter();
            self.console.warn(&format!(
                "      the scenario ended the run of {letter} early, and half a run is compared with none: {reason}"
            ));
        }
        let is_cut = run.interrupted || run.aborted.is_some();
        Ok(if is_cut { code.and_then(Exit::of).unwrap_or(Exit::Interrupted) } else { Exit::Held })
    }

    /// The runs of all whole pairs.
    fn measured(&self) -> anyhow::Result<[Vec<Measured>; 2]> {
        let mut sides = [Vec::new(), Vec::new()];
        for pair in turns(self.settings.pairs) {
            if !pair.iter().all(|turn| self.is_made(turn)) {
                continue;
            }
            for turn in pair {
                let mut it = read(&self.path.join(&turn.directory).join("run.json"))?;
                it.scenario.iter_mut().for_each(|scenario| self.side(turn.which).own.taken_out(scenario));
                let place = usize::from(turn.which == Which::B);
                sides[place].push(Measured { name: turn.directory, ..it });
            }
        }
        Ok(sides)
    }

    /// Writes down what the pairs say that there are; nothing while they are too few. Pairs that can never be compared are
    /// refused from the first one on.
    fn save(&self) -> Outcome<Option<Comparison>> {
        let [a, b] = self.measured()?;
        let Some(last) = a.last() else { return Ok(None) };
        let names = [self.sides[0].side.name(), self.sides[1].side.name()];
        let asked = Asked { names, varied: self.varied.clone(), force: false };
        let refused = |failure| refusal::with_way_out(failure, &self.path, a.len(), &last.name);
        if a.len() < PAIRS_MIN {
            return check(&a, &b, asked, &self.settings.judge).map(|()| None).map_err(refused);
        }
        let comparison = weigh(&a, &b, asked, &self.settings.judge).map_err(refused)?;
        dir::save(&self.path, &comparison, Links::Siblings)?;
        Ok(Some(comparison))
    }

    fn end(self, ended: Exit) -> Outcome<Finished> {
        let comparison = self.save()?;
        let pairs = self.measured()?[0].len();
        Ok(Finished { comparison, path: self.path, pairs, ended })
    }
}

/// The keys in which the runs of A and B may differ: what was said, and what follows from it in the scenario. A value below a key
/// that was not there brings other values with it.
fn varied([a, b]: &[Prepared; 2]) -> anyhow::Result<Vec<String>> {
    let follows = differing_keys(&a.loaded.tree()?, &b.loaded.tree()?);
    Ok([a.side.varied(), b.side.varied(), follows].concat())
}
