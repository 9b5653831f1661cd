//! Measures two sides in alternating pairs, one child process at a time, and compares them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_deployment::Namespace;
use plimsoll_measure::clock;
use plimsoll_measure::comparison::sign_flip::PAIRS_MIN;
use plimsoll_measure::comparison::{Comparison, differing_keys};
use plimsoll_measure::run::Run;
use plimsoll_report::matrix::brief;
use plimsoll_run::console::Console;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::server_provisioning::StartOptions;
use plimsoll_run::system::Isolation;
use plimsoll_run::{lifecycle, run_dir, stale_runs};
use plimsoll_systems::audit::is_intact;

use super::comparing::{Asked, check, weigh};
use super::plan::{Criteria, Plan};
use super::prepare::{Prepared, Settings, prepare};
use super::read_runs::{Measured, read};
use super::refusal;
use crate::child::Start;
use crate::directory::{Found, SeriesDir, check_vacant};
use crate::drive::{Next, Series, make_all};
use crate::isolation::Exclusive;
use crate::rounds::{Order, Turn, turns};
use crate::server::{Contents, Server, refuse};

/// The subdirectory of the load: the run directory itself, because a run of a comparison has only one load.
const LOAD_SUBDIRECTORY: &str = "";

/// A comparison whose runs are done, or that was interrupted.
#[derive(Debug)]
pub struct Finished {
    /// The comparison, if there are enough pairs.
    pub comparison: Option<Comparison>,
    /// Its directory.
    pub path: PathBuf,
    /// The number of measured pairs.
    pub pairs: usize,
    /// The exit of the run that ended the comparison early, or [`Exit::Interrupted`]. [`Exit::Held`] if all
    /// runs are done.
    pub ended: Exit,
}

/// Measures A and B in pairs until all are done or `flag` is set.
///
/// # Errors
/// When the comparison cannot be made.
pub fn measure(settings: &Settings, flag: Arc<AtomicBool>) -> Outcome<Finished> {
    let sides = prepare(settings).deserves(Exit::Usage)?;
    let mut drive = Drive::start(settings, sides, flag)?;
    // The pairs of an earlier attempt may already rule out a comparison.
    drive.save()?;
    make_all(&mut drive)?;
    let comparison = drive.save()?;
    let pairs = drive.measured()?[0].len();
    let is_cut = drive.ended == Exit::Held && !drive.pending().is_empty();
    let ended = if is_cut { Exit::Interrupted } else { drive.ended };
    Ok(Finished { comparison, path: drive.dir.path().to_owned(), pairs, ended })
}

/// A comparison in progress.
struct Drive<'a> {
    settings: &'a Settings,
    sides: [Prepared; 2],
    /// The keys in which the runs of A and B may differ.
    varied: Vec<String>,
    turns: Vec<Turn>,
    dir: SeriesDir,
    flag: Arc<AtomicBool>,
    /// The exit of the latest run. Any exit except [`Exit::Held`] ends the comparison.
    ended: Exit,
    console: &'static dyn Console,
}

impl Series for Drive<'_> {
    fn dir(&self) -> &SeriesDir {
        &self.dir
    }

    fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Both runs of every incomplete pair: the machine may have changed since half a pair was measured.
    fn pending(&self) -> Vec<(usize, String)> {
        let pairs = self.turns.chunks(2).enumerate().filter(|(_, pair)| !self.is_whole(pair));
        let runs = pairs.flat_map(|(index, pair)| (2 * index..).zip(pair));
        runs.map(|(index, turn)| (index, directory(turn))).collect()
    }

    /// Makes one run. Its figures count even if an expectation of the scenario does not hold.
    fn make(&mut self, run: usize) -> Outcome<Next> {
        self.ended = self.measure_once(&self.turns[run])?;
        if self.ended != Exit::Held {
            return Ok(Next::Stop);
        }
        if run % 2 == 1 {
            self.save()?;
        }
        Ok(Next::Continue)
    }
}

impl<'a> Drive<'a> {
    /// Creates the directory, or opens that of an earlier attempt.
    fn start(settings: &'a Settings, mut sides: [Prepared; 2], flag: Arc<AtomicBool>) -> Outcome<Self> {
        let console = settings.load.console;
        if settings.resume.is_none() {
            check_vacant::<Comparison>(settings.load.out.as_deref()).deserves(Exit::Usage)?;
        }
        let runtime = Arc::new(lifecycle::runtime()?);
        for side in &mut sides {
            let timeout = Duration::from_nanos(side.loaded.scenario.timeout.as_ns());
            let start = StartOptions { console, ..StartOptions::quiet(timeout) };
            if let Some(choice) = side.running_server() {
                side.server = Some(Server::open(choice, start, None, &runtime)?);
            }
        }
        let plan = Plan {
            scenario: sides[0].loaded.name.clone(),
            hashes: sides.each_ref().map(|side| side.loaded.hash()),
            a: sides[0].side.name(),
            b: sides[1].side.name(),
            servers: sides.each_ref().map(Prepared::servers),
            criteria: Some(Criteria {
                primary: settings.judge.primary.clone(),
                min_effect: settings.judge.min_effect,
                pairs: settings.pairs,
            }),
        };
        let dir = open(settings, &plan)?;
        console.say(&format!(
            "{}: {} pairs, {} runs in turns\n  A  {}\n  B  {}",
            sides[0].loaded.scenario.title,
            settings.pairs,
            2 * settings.pairs,
            plan.a,
            plan.b
        ));
        if sides.iter().any(|side| side.subject.isolation() == Isolation::Shared) {
            console.say("  A running service keeps the data of each run: later runs find more in it.");
        }
        let varied = varied(&sides)?;
        let turns = turns(&[settings.pairs; 2], Order::Alternating);
        Ok(Self { settings, sides, varied, turns, dir, flag, ended: Exit::Held, console })
    }

    fn is_whole(&self, pair: &[Turn]) -> bool {
        let phases = |turn: &Turn| self.sides[turn.variant].phases;
        pair.iter().all(|turn| is_whole(&self.dir.found(&directory(turn)), phases(turn)))
    }

    fn measure_once(&self, turn: &Turn) -> Outcome<Exit> {
        let (of, letter) = (2 * self.settings.pairs, letter(turn));
        self.console.say(&format!("\n[{}/{of}] pair {}, {letter}", turn.number, turn.repetition));
        let (path, side) = (self.dir.path().join(directory(turn)), &self.sides[turn.variant]);
        let owned = side.claim(turn.number, &path)?;
        let mut arguments = side.arguments(&self.settings.scenario, turn.number);
        arguments.extend(self.settings.quiet.then(|| "--quiet".to_owned()));
        let program = side.side.binary.as_deref();
        let start = Start { program, arguments: &arguments, out: &path, log: None, cpus: None };
        let code = start.run(&self.flag, None)?.code();
        let run = run_dir::read_run(&path).ok();
        if let Some(owned) = owned {
            side.release(&owned, run.as_ref())?;
        }
        let exit = code.and_then(Exit::of);
        let Some(run) = run else {
            // A run that was stopped before it handled the signal has no code.
            let none = if self.flag.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Failed };
            let exit = exit.filter(|exit| *exit != Exit::Held).unwrap_or(none);
            if exit != Exit::Interrupted {
                self.console.warn(&format!("      the run of {letter} could not be completed: see above"));
            }
            return Ok(exit);
        };
        self.console.say(&format!("      {}", brief(&run)));
        if let Some(reason) = &run.aborted {
            self.console.warn(&format!(
                "      the scenario ended the run of {letter} early, so the run is not compared: {reason}"
            ));
        }
        let is_cut = run.interrupted || run.aborted.is_some();
        Ok(if is_cut { exit.unwrap_or(Exit::Interrupted) } else { Exit::Held })
    }

    /// The runs of all complete pairs.
    fn measured(&self) -> anyhow::Result<[Vec<Measured>; 2]> {
        let mut sides = [Vec::new(), Vec::new()];
        for turn in self.turns.chunks(2).filter(|pair| self.is_whole(pair)).flatten() {
            let name = directory(turn);
            let mut it = read(&self.dir.path().join(&name).join("run.json"))?;
            it.scenario.iter_mut().for_each(|scenario| self.sides[turn.variant].exclusive.restore(scenario));
            sides[turn.variant].push(Measured { name, ..it });
        }
        Ok(sides)
    }

    /// Writes the comparison of the measured pairs; `None` while they are too few. Incomparable pairs are refused from the first
    /// one on.
    fn save(&self) -> Outcome<Option<Comparison>> {
        let [a, b] = self.measured()?;
        let Some(last) = a.last() else { return Ok(None) };
        let names = self.sides.each_ref().map(|side| side.side.name());
        let asked = Asked { names, varied: self.varied.clone(), force: false };
        let refused = |failure| refusal::with_remedy(failure, self.dir.path(), a.len(), &last.name);
        if a.len() < PAIRS_MIN {
            return check(&a, &b, asked, &self.settings.judge).map(|()| None).map_err(refused);
        }
        let comparison = weigh(&a, &b, asked, &self.settings.judge).map_err(refused)?;
        self.dir.save(&comparison)?;
        Ok(Some(comparison))
    }
}

/// `A` or `B`.
const fn letter(turn: &Turn) -> &'static str {
    if turn.variant == 0 { "A" } else { "B" }
}

fn directory(turn: &Turn) -> String {
    format!("{:03}-{}", turn.repetition, letter(turn).to_lowercase())
}

fn open(settings: &Settings, plan: &Plan) -> Outcome<SeriesDir> {
    if let Some(path) = &settings.resume {
        plan.check(path).deserves(Exit::Usage)?;
        return SeriesDir::locked::<Comparison>(path).deserves(Exit::Usage);
    }
    let name = format!("{}-ab", plan.scenario);
    let dir = SeriesDir::create::<Comparison>(settings.load.out.as_deref(), &name, clock::wall_ms());
    let dir = dir.deserves(Exit::Usage)?;
    plan.keep(&dir)?;
    Ok(dir)
}

/// Whether a run was completed.
fn is_whole(found: &Found, phases: usize) -> bool {
    let whole = |run: &Run| !run.interrupted && run.aborted.is_none() && run.phases.len() >= phases;
    matches!(found, Found::Summary(run) if whole(run))
}

/// The keys in which A and B may differ: the given keys, and all keys that differ between the resolved scenarios. A new key can
/// also bring in defaults.
fn varied([a, b]: &[Prepared; 2]) -> anyhow::Result<Vec<String>> {
    let follows = differing_keys(&a.loaded.tree()?, &b.loaded.tree()?);
    Ok([a.side.varied(), b.side.varied(), follows].concat())
}

/// A collection or database that a run may fill, and that is dropped after the run.
enum Owned {
    Collection(Namespace),
    Database(String),
}

impl Prepared {
    /// Checks the collection or database of run `number` on a running server. `None` if nothing is dropped
    /// after the run: the run has no exclusive data, or its collection existed before and is empty.
    fn claim(&self, number: u32, path: &Path) -> Outcome<Option<Owned>> {
        let (Some(server), Some(name)) = (&self.server, self.exclusive.name(number)) else { return Ok(None) };
        if let Exclusive::NumberedDatabase { path: key, .. } = &self.exclusive {
            let exists = server.has_database(&name).deserves(Exit::Server)?;
            let taken: Vec<_> = exists.then(|| format!("the database {name}")).into_iter().collect();
            refuse(&taken, "its own new database", key).deserves(Exit::Usage)?;
            return Ok(Some(Owned::Database(name)));
        }
        let namespace: Namespace = name.parse().deserves(Exit::Usage)?;
        let earlier = stale_runs::runs(path, &[LOAD_SUBDIRECTORY]);
        match server.contents(&namespace, &earlier).deserves(Exit::Server)? {
            Contents::Empty => return Ok(None),
            Contents::Missing => {}
            Contents::Leftovers(_) => server.drop_collection(&namespace).deserves(Exit::Server)?,
            Contents::Foreign(documents) => {
                let taken = [format!("{namespace} is not empty ({documents} documents)")];
                refuse(&taken, "a missing or empty collection", "collection").deserves(Exit::Server)?;
            }
        }
        Ok(Some(Owned::Collection(namespace)))
    }

    /// Drops the collection or database of a run. A collection stays if the audit found violations.
    fn release(&self, owned: &Owned, run: Option<&Run>) -> Outcome<()> {
        let Some(server) = &self.server else { return Ok(()) };
        let intact = run.and_then(|run| run.integrity.as_ref()).is_some_and(is_intact);
        let dropped = match owned {
            Owned::Database(name) => server.drop_database(name),
            Owned::Collection(namespace) if intact => server.drop_collection(namespace),
            Owned::Collection(_) => Ok(()),
        };
        dropped.deserves(Exit::Server)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::run::PhaseFacts;

    use super::*;

    #[test]
    fn each_side_starts_every_other_pair() {
        let made: Vec<_> =
            turns(&[3; 2], Order::Alternating).iter().map(|it| (it.number, directory(it))).collect();
        let expected = ["001-a", "001-b", "002-b", "002-a", "003-a", "003-b"];
        assert_eq!(made, (1..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
    }

    #[test]
    fn an_interrupted_run_is_not_complete() {
        let phases = vec![PhaseFacts::default()];
        let run = |interrupted| {
            Found::Summary(Box::new(Run { interrupted, phases: phases.clone(), ..Run::default() }))
        };
        assert!(is_whole(&run(false), 1));
        assert!(!is_whole(&run(true), 1) && !is_whole(&run(false), 2));
        assert!(!is_whole(&Found::Unfinished, 0) && !is_whole(&Found::Nothing, 0));
    }
}
