//! `plimsoll run` of a scenario with a matrix: one server, one cell after the other.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bson::rawdoc;
use plimsoll_ledger::Run as RunId;
use plimsoll_load::arrivals::Share as Shard;
use plimsoll_load::phase::Phase;
use plimsoll_load::worker::Control;
use plimsoll_measure::clock::{self, Instant};
use plimsoll_measure::duration::Span;
use plimsoll_measure::inspection::Size;
use plimsoll_measure::matrix::{
    Axis, Cell as CellResult, CellRun, FORMAT, Matrix as Results, State, together, worse,
};
use plimsoll_measure::run::{Run, Verdict};
use plimsoll_measure::size::Bytes;
use plimsoll_mongo::collection;
use plimsoll_mongo::setup::Namespace;
use plimsoll_report::matrix as report;
use plimsoll_report::units::duration;
use plimsoll_server::machine;
use plimsoll_wire::Connection;

use super::load::{self, Closed};
use super::run::one_phase;
use crate::check;
use crate::cli::RunArgs;
use crate::exit::{Deserves, Exit, Failure, Outcome, worst_of_runs};
use crate::matrix::cells::{Cell, Expanded, expand, refuse};
use crate::matrix::choice::Choice;
use crate::matrix::cost::{Estimate, Keep, Share, estimate, refusal, share};
use crate::matrix::dir::{MatrixDir, read};
use crate::matrix::runs::{Planned, Todo, is_cut, notes, schedule, todo};
use crate::matrix::words::{Intent, announce, list};
use crate::place::{Choice as Server, Manner, Place};
use crate::plan;
use crate::readers::Readers;
use crate::run_dir::{self, RunDir};
use crate::scenario::{Loaded, Matrix, Scenario};
use crate::session::{Opening, Session, new_run};
use crate::system::{Database, Ground, compile};
use crate::terminal::{print, say, style};

/// After so many runs in a row that could not reach the server, the others are not tried.
const SERVER_FAILURES_MAX: u32 = 3;
/// A run without a limit of time is not begun with less than this left of the bound, in seconds.
const LEFT_S_MIN: f64 = 1.0;
/// Collections that are named when they are in the way.
const NAMED_MAX: usize = 3;

/// Makes the runs of a matrix that were asked for and are not there yet.
///
/// # Errors
/// What kept the matrix from being made.
pub fn run(loaded: &Loaded, args: &RunArgs) -> Outcome<Exit> {
    let prepared = prepare(loaded, args).deserves(Exit::Usage)?;
    if args.list {
        tell_list(&prepared, args)?;
        return Ok(Exit::Held);
    }
    if let Some(reason) = &prepared.refusal {
        return Err(Failure { exit: Exit::Usage, error: anyhow::anyhow!("{reason}") });
    }
    let quiet = args.load.quiet || args.load.json;
    if !quiet {
        say(&announce(&prepared.intent()));
    }
    let flag = load::signals().context("listen to signals")?;
    let mut drive = Drive::start(prepared, args, flag)?;
    drive.make_all()?;
    drive.end()
}

/// Everything that is decided before a server is looked for.
struct Prepared<'a> {
    loaded: &'a Loaded,
    matrix: &'a Matrix,
    expanded: Expanded,
    shares: Vec<Share>,
    runs: Vec<Planned>,
    todo: Vec<Todo>,
    estimate: Estimate,
    refusal: Option<String>,
    keep: Keep,
    server: Server,
    choice: Choice,
    earlier: Option<(MatrixDir, Results)>,
}

fn prepare<'a>(loaded: &'a Loaded, args: &RunArgs) -> anyhow::Result<Prepared<'a>> {
    let matrix = loaded.scenario.matrix.as_ref().context("the scenario has no matrix")?;
    let whole = plan::shard(&args.load.shard)?.of == 1;
    ensure!(whole, "--shard: a matrix is made by one process; leave it out");
    refuse(loaded, matrix)?;
    ensure!(
        loaded.scenario.http.is_none(),
        "matrix: the runs of a matrix load databases, and this scenario loads a service: run it once for each choice with --set, \
         or compare two with `plimsoll ab`"
    );
    let earlier = args.resume.as_deref().map(reopen).transpose()?;
    let choice = choose(loaded, matrix, args, earlier.as_ref().map(|(_, results)| results))?;
    let expanded = expand(loaded, matrix, &choice)?;
    let server = check::choose(&args.load, &loaded.scenario)?;
    let shares = check_cells(&expanded.cells, &server)?;
    let runs = schedule(&expanded.cells, matrix.repetitions);
    let todo: Vec<Todo> = runs.iter().map(|run| decide(run, &expanded, earlier.as_ref())).collect();
    let keep = if args.load.keep { Keep::Everything } else { Keep::Nothing };
    let to_make = runs.iter().zip(&todo).filter(|(_, todo)| **todo != Todo::Keep);
    let to_make: Vec<Share> = to_make.map(|(run, _)| shares[run.cell]).collect();
    let estimate = estimate(expanded.cells.len(), &to_make, keep);
    let refusal = refusal(&estimate, &matrix.bounds, free(&server));
    Ok(Prepared {
        loaded,
        matrix,
        expanded,
        shares,
        runs,
        todo,
        estimate,
        refusal,
        keep,
        server,
        choice,
        earlier,
    })
}

/// An earlier matrix, to go on with.
fn reopen(path: &Path) -> anyhow::Result<(MatrixDir, Results)> {
    let earlier = MatrixDir::open(path)?;
    ensure!(
        !run_dir::storage(path, 0).is_dir(),
        "--resume: {} holds the storage of the server that --keep kept, and another server would not know what is in it: \
         begin anew without --resume",
        path.display()
    );
    Ok(earlier)
}

/// The values of the command line; when going on with an earlier matrix, those that it was begun with.
fn choose(
    loaded: &Loaded,
    matrix: &Matrix,
    args: &RunArgs,
    earlier: Option<&Results>,
) -> anyhow::Result<Choice> {
    let asked = Choice::read(matrix, &args.only)?;
    let Some(earlier) = earlier else { return Ok(asked) };
    let begun = Choice(earlier.axes.iter().map(|axis| (axis.name.clone(), axis.values.clone())).collect());
    ensure!(
        earlier.hash == hash(loaded),
        "--resume: the directory was made from another scenario or with other overrides: give the same, or begin anew \
         without --resume"
    );
    ensure!(
        args.only.is_empty() || asked == begun,
        "--resume: other values were asked for when it was begun: leave out --only, or begin anew without --resume"
    );
    Ok(begun)
}

/// The scenario without what a matrix may take and what its tables show, so that both can be changed on the way.
fn hash(loaded: &Loaded) -> String {
    let matrix = loaded.scenario.matrix.clone();
    let bounds = crate::scenario::Bounds::default();
    let matrix = matrix.map(|matrix| Matrix { bounds, show: Vec::new(), ..matrix });
    Loaded { scenario: Scenario { matrix, server: None, ..loaded.scenario.clone() }, ..loaded.clone() }.hash()
}

/// Compiles every cell and looks what it takes.
fn check_cells(cells: &[Cell], server: &Server) -> anyhow::Result<Vec<Share>> {
    let check = |cell: &Cell| {
        let setup = compile(&cell.loaded, &cell.plan, RunId { time_s: 0, tag: [0; 3] })?;
        check::faults(&cell.plan, server)?;
        check::several(&cell.loaded.scenario, &cell.plan, server)?;
        anyhow::Ok(share(cell, &setup))
    };
    cells.iter().map(|cell| check(cell).with_context(|| format!("matrix: the cell {}", cell.label))).collect()
}

fn decide(run: &Planned, expanded: &Expanded, earlier: Option<&(MatrixDir, Results)>) -> Todo {
    let Some((dir, _)) = earlier else { return Todo::Make };
    todo(&dir.found(&run.directory), &expanded.cells[run.cell].plan)
}

/// Bytes that are free where a server of ours keeps its data.
fn free(server: &Server) -> Option<u64> {
    match server {
        Server::Uri(_) => None,
        Server::Several(all) if all.iter().all(|server| matches!(server, Server::Uri(_))) => None,
        _ => {
            let room = rustix::fs::statvfs(std::env::temp_dir()).ok()?;
            Some(room.f_bavail.saturating_mul(room.f_frsize))
        }
    }
}

fn tell_list(prepared: &Prepared<'_>, args: &RunArgs) -> Outcome<()> {
    if args.load.json {
        return print_json(&prepared.results());
    }
    print(&format!("{}\n", announce(&prepared.intent())));
    print(&list(&prepared.expanded.cells, &prepared.shares));
    if let Some(reason) = &prepared.refusal {
        print(&format!("It would be refused: {reason}\n"));
    }
    Ok(())
}

fn print_json(results: &Results) -> Outcome<()> {
    let text = serde_json::to_string_pretty(results).context("write matrix.json")?;
    print(&format!("{text}\n"));
    Ok(())
}

impl Prepared<'_> {
    fn intent(&self) -> Intent<'_> {
        Intent {
            title: &self.loaded.scenario.title,
            estimate: &self.estimate,
            bounds: &self.matrix.bounds,
            left_out: &self.expanded.left_out,
            runs: &self.runs,
            made: self.todo.iter().filter(|todo| **todo == Todo::Keep).count(),
            keep: self.keep,
        }
    }

    /// What is known before the first run.
    fn results(&self) -> Results {
        let scenario = &self.loaded.scenario;
        let started_ms = clock::wall_ms();
        let axes = self.choice.0.iter();
        Results {
            format: FORMAT,
            name: self.loaded.name.clone(),
            title: scenario.title.clone(),
            question: scenario.question.clone(),
            hash: hash(self.loaded),
            seed: scenario.seed,
            started: clock::utc(started_ms),
            started_ms,
            axes: axes.map(|(name, values)| Axis { name: name.clone(), values: values.clone() }).collect(),
            show: self.matrix.show.clone(),
            repetitions: self.matrix.repetitions,
            left_out: self.expanded.left_out.clone(),
            cells: self.expanded.cells.iter().map(result).collect(),
            runs: self.runs.iter().map(|run| self.planned(run)).collect(),
            ..Results::default()
        }
    }

    fn planned(&self, run: &Planned) -> CellRun {
        CellRun {
            number: run.number,
            cell: self.expanded.cells[run.cell].number,
            repetition: run.repetition,
            directory: run.directory.clone(),
            collection: run.collection.clone(),
            ..CellRun::default()
        }
    }
}

fn result(cell: &Cell) -> CellResult {
    CellResult { number: cell.number, values: cell.values.iter().cloned().collect(), ..CellResult::default() }
}

/// A matrix that is being made.
struct Drive<'a> {
    prepared: Prepared<'a>,
    args: &'a RunArgs,
    dir: MatrixDir,
    results: Results,
    place: Place,
    runtime: tokio::runtime::Runtime,
    flag: Arc<AtomicBool>,
    started: Instant,
    /// Collections that were there before, empty: they are used and stay.
    standing: BTreeSet<String>,
    quiet: bool,
}

impl<'a> Drive<'a> {
    /// Makes the directory, finds or starts the server, and looks whether the collections are free.
    fn start(mut prepared: Prepared<'a>, args: &'a RunArgs, flag: Arc<AtomicBool>) -> Outcome<Self> {
        let quiet = args.load.quiet || args.load.json;
        let runtime = load::runtime()?;
        let timeout = Duration::from_nanos(prepared.loaded.scenario.timeout.as_ns());
        let cache_bytes = prepared.loaded.scenario.cache.map(Bytes::get);
        let place = Place::open(&prepared.server, Manner { timeout, quiet, cache_bytes }, &runtime)?;
        let standing = runtime.block_on(look(&prepared, &place))?;
        let (dir, mut results) = match prepared.earlier.take() {
            Some(earlier) => earlier,
            None => begin(&prepared, args)?,
        };
        results.environment = machine::environment(dir.path());
        results.show.clone_from(&prepared.matrix.show);
        dir.scenario(&prepared.loaded.resolved()?)?;
        let started = clock::now();
        let mut drive = Self { prepared, args, dir, results, place, runtime, flag, started, standing, quiet };
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

    fn make_all(&mut self) -> Outcome<()> {
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
        if failures >= SERVER_FAILURES_MAX && !self.quiet {
            say(&format!(
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
        if is_late && !self.quiet {
            say(&format!(
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
        if !self.quiet {
            say(&format!("\n[{}/{}] {label}", planned.number, self.prepared.runs.len()));
        }
        let made = self.load(&planned);
        let exit = match made {
            Ok(closed) => self.record(index, &closed),
            Err(failure) => self.record_failure(index, &failure),
        };
        self.save()?;
        Ok(exit)
    }

    /// The load of one run, from its first connection to its closed books.
    fn load(&self, planned: &Planned) -> Outcome<Closed> {
        let cell = &self.prepared.expanded.cells[planned.cell];
        let mut loaded = cell.loaded.clone();
        loaded.scenario.collection.clone_from(&planned.collection);
        let mut place = self.place.clone();
        check::put_proxies(&mut place, &loaded, &cell.plan)?;
        let path = self.dir.path().join(&planned.directory);
        let started_ms = clock::wall_ms();
        let dir = RunDir::create(Some(&path), &loaded.name, started_ms)?;
        let (run, shard) = (new_run(started_ms), Shard::WHOLE);
        let ground = Ground { loaded: &loaded, plan: &cell.plan, run, shard };
        let session = Database::open(ground, place, load::runtime()?).and_then(|database| {
            Session::open(Opening {
                plan: cell.plan.clone(),
                system: Box::new(database),
                readers: Readers::new(dir, self.quiet),
                control: Control::listening(self.flag.clone()),
                shard,
                run,
                started_ms,
                loaded,
            })
        });
        let mut session = session.inspect_err(|_| run_dir::abandon(&path))?;
        for phase in &cell.plan.phases {
            if !session.is_over() {
                one_phase(&mut session, &limited(phase, self.left_s()))?;
            }
        }
        load::finish(session, "run", None)
    }

    fn record(&mut self, index: usize, closed: &Closed) -> Exit {
        let planned = &self.prepared.runs[index];
        let cell = &self.prepared.expanded.cells[planned.cell];
        let cut = is_cut(&closed.run, &cell.plan);
        let intact = closed.run.integrity.as_ref().is_some_and(|it| it.holds() && it.is_known());
        let (size, left_behind) = self.clear(planned, intact);
        let run = &mut self.results.runs[index];
        run.state = if closed.run.interrupted || cut { State::Interrupted } else { State::Done };
        run.verdict = Some(closed.run.verdict);
        run.reasons.clone_from(&closed.run.reasons);
        run.notes = notes(&closed.run, &cell.plan);
        if cut && !closed.run.interrupted {
            run.verdict = Some(worse(Verdict::Invalid, closed.run.verdict));
            run.reasons.push("cut off before its end".to_owned());
        }
        (run.exit, run.size) = (Some(closed.exit.code()), size);
        self.results.server = closed.run.server.clone();
        if !self.quiet {
            say(&format!("      {}", report::brief(&closed.run)));
            left_behind.iter().for_each(|text| say(&format!("      {text}")));
        }
        closed.exit
    }

    fn record_failure(&mut self, index: usize, failure: &Failure) -> Exit {
        let reason = format!("{:#}", failure.error);
        say(&format!("      it could not be made: {reason}"));
        let run = &mut self.results.runs[index];
        (run.state, run.exit) = (State::Failed, Some(failure.exit.code()));
        run.reasons = vec![reason];
        failure.exit
    }

    /// Looks what the collection took and drops it, if it is ours, nothing in it is wrong, and nobody wants to keep it.
    fn clear(&self, planned: &Planned, intact: bool) -> (Option<Size>, Option<String>) {
        let Ok(namespace) = planned.collection.parse::<Namespace>() else { return (None, None) };
        let stays = if self.standing.contains(&planned.collection) {
            Some("was there before")
        } else if !intact {
            Some("holds what the audit found wrong or could not read")
        } else {
            None
        };
        let dropping = stays.is_none() && self.prepared.keep == Keep::Nothing;
        let cleared = self.runtime.block_on(clear(&self.place, &namespace, dropping));
        let said = stays.map(|why| format!("{namespace} {why}: it stays"));
        match cleared {
            Ok(size) => (size, said),
            Err(error) => {
                (None, said.or_else(|| Some(format!("{namespace} could not be dropped: {error:#}"))))
            }
        }
    }

    fn save(&mut self) -> Outcome<()> {
        let dir = &self.dir;
        self.results.conclude(|run| dir.summary(&run.directory));
        dir.save(&self.results)?;
        Ok(())
    }

    /// Says what there is, and ends the server.
    fn end(self) -> Outcome<Exit> {
        let Self { args, dir, results, place, flag, quiet, .. } = self;
        if args.load.keep {
            place.keep(dir.path())?;
        }
        let shown = dir.path().display().to_string();
        if args.load.json {
            print_json(&results)?;
        } else if !quiet {
            print(&format!("\n{}", report::summary(&results, Some(&shown), style())));
        }
        let is_cut = results.runs.iter().any(|run| matches!(run.state, State::Planned | State::Interrupted));
        if is_cut && !quiet {
            say(&format!("It is not complete. Go on with --resume {shown}"));
        }
        let ended = (is_cut || flag.load(Ordering::Relaxed)).then_some(Exit::Interrupted);
        let exits = results.runs.iter().filter_map(|run| run.exit.and_then(Exit::of)).chain(ended);
        Ok(worst_of_runs(&exits.collect::<Vec<_>>()))
    }
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

fn begin(prepared: &Prepared<'_>, args: &RunArgs) -> anyhow::Result<(MatrixDir, Results)> {
    let results = prepared.results();
    let dir = MatrixDir::create(args.load.out.as_deref(), &prepared.loaded.name, results.started_ms)?;
    Ok((dir, results))
}

/// A phase without a limit of time gets what the matrix has left.
fn limited(phase: &Phase, left_s: f64) -> Phase {
    let mut phase = phase.clone();
    let left = Span::from_ns((left_s.max(LEFT_S_MIN) * 1e9) as u64);
    phase.stop.duration.get_or_insert(left);
    phase
}

/// The collections of the runs to be made that are there already, empty.
///
/// # Errors
/// When some are there and not empty.
async fn look(prepared: &Prepared<'_>, place: &Place) -> Outcome<BTreeSet<String>> {
    let (mut standing, mut taken) = (BTreeSet::new(), Vec::new());
    let to_make = prepared.runs.iter().zip(&prepared.todo).filter(|(_, todo)| **todo != Todo::Keep);
    let names: Vec<&String> = to_make.map(|(run, _)| &run.collection).collect();
    for place in place.all() {
        let mut connection = Connection::connect(&place.site.options()).await.deserves(Exit::Server)?;
        for name in &names {
            let namespace: Namespace = name.parse().deserves(Exit::Usage)?;
            if !collection::exists(&mut connection, &namespace).await.deserves(Exit::Server)? {
                continue;
            }
            match collection::count(&mut connection, &namespace).await.deserves(Exit::Server)? {
                0 => _ = standing.insert((*name).clone()),
                documents => taken.push(format!("{name} ({documents} documents)")),
            }
        }
    }
    check_taken(&taken).deserves(Exit::Usage)?;
    Ok(standing)
}

fn check_taken(taken: &[String]) -> anyhow::Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let more = if taken.len() > NAMED_MAX { " and more" } else { "" };
    bail!(
        "{}{more}: a cell needs a collection that is not there or empty. Name another one with --set collection=…, or drop \
         them yourself if they are what a run left behind that was cut off",
        taken[..taken.len().min(NAMED_MAX)].join(", ")
    )
}

/// What a collection takes on all servers; drops it if asked to.
///
/// # Errors
/// When a server cannot be reached, or refuses to drop it.
pub async fn clear(place: &Place, namespace: &Namespace, dropping: bool) -> anyhow::Result<Option<Size>> {
    let mut sizes = Vec::new();
    for place in place.all() {
        let mut connection = Connection::connect(&place.site.options()).await?;
        if place.server.is_some() {
            // Sizes on disk are those of the last checkpoint. A server that cannot be told to make one stays as it is.
            let _ = connection.command("admin", &rawdoc! {"fsync": 1}).await;
        }
        sizes.push(collection::size(&mut connection, namespace).await.unwrap_or_default());
        if dropping {
            collection::drop_collection(&mut connection, namespace).await?;
        }
    }
    Ok(together(&sizes))
}

/// Prints a matrix again.
///
/// # Errors
/// When the directory is none of a matrix.
pub fn show(path: &Path, json: bool) -> Outcome<Exit> {
    let results = read(path).deserves(Exit::Usage)?;
    if json {
        print_json(&results)?;
    } else {
        print(&report::summary(&results, Some(&path.display().to_string()), style()));
    }
    Ok(Exit::Held)
}
