//! Plans a matrix before any server is contacted: cells, runs, cost and permission.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use plimsoll_host::machine::environment;
use plimsoll_measure::clock;
use plimsoll_measure::matrix::{Axis, Cell as CellResult, CellRun, FORMAT, Matrix as Results};

use crate::isolation::Venue;
use crate::matrix::cells::{Cell, Expanded, expand, refuse};
use crate::matrix::choice::Choice;
use crate::matrix::cost::{Estimate, Keep, estimate, refusal};
use crate::matrix::dir::MatrixDir;
use crate::matrix::messages::Intent;
use crate::matrix::run_estimate::{self, Share};
use crate::matrix::runs::{Planned, Todo, schedule, todo};
use crate::same_machine::check_same;
use plimsoll_run::options::LoadOptions;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::Choice as Server;
use plimsoll_run::system::{Subject, resolve};
use plimsoll_scenario::plan;
use plimsoll_scenario::{Bounds, Loaded, Matrix, Scenario};

/// A matrix as the user asks for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Values to run instead of the defaults, as `axis=value[,value]`.
    pub only: Vec<String>,
    /// The directory of an earlier matrix to complete.
    pub resume: Option<PathBuf>,
    /// How and where each run is made.
    pub load: LoadOptions,
}

/// Everything that is decided before a server is looked for.
pub struct Prepared<'a> {
    /// The scenario with its matrix.
    pub loaded: &'a Loaded,
    /// The matrix in it.
    pub matrix: &'a Matrix,
    /// Its cells.
    pub expanded: Expanded,
    /// What one run of each cell takes.
    pub shares: Vec<Share>,
    /// What each cell loads.
    pub subjects: Vec<Arc<dyn Subject>>,
    /// Where all runs are made.
    pub venue: Venue,
    /// The runs in their order.
    pub runs: Vec<Planned>,
    /// What is to be done about each of them.
    pub todo: Vec<Todo>,
    /// What all that is to be done takes.
    pub estimate: Estimate,
    /// Why that is too much.
    pub refusal: Option<String>,
    /// Whether what they wrote stays.
    pub keep: Keep,
    /// Whether Plimsoll measures itself before and after each load.
    pub canary: bool,
    /// The values that were asked for.
    pub choice: Choice,
    /// An earlier matrix to go on with.
    pub earlier: Option<(MatrixDir, Results)>,
}

/// Decides everything that can be decided before a server is looked for.
///
/// # Errors
/// What cannot be meant.
pub fn prepare<'a>(loaded: &'a Loaded, settings: &Settings) -> anyhow::Result<Prepared<'a>> {
    let matrix = loaded.scenario.matrix.as_ref().context("the scenario has no matrix")?;
    let whole = plan::shard(&settings.load.shard)?.of == 1;
    ensure!(whole, "--shard: a matrix is made by one process; leave it out");
    refuse(loaded, matrix)?;
    check_words(matrix, &settings.load)?;
    let earlier = settings.resume.as_deref().map(reopen).transpose()?;
    let choice = choose(loaded, matrix, settings, earlier.as_ref().map(|(_, results)| results))?;
    let expanded = expand(loaded, matrix, &choice)?;
    let checked = check_cells(&expanded.cells, &settings.load)?;
    let (subjects, shares): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
    let venue = Venue::of_all(subjects.iter().map(AsRef::as_ref))?;
    let runs = schedule(&expanded.cells, matrix.repetitions, venue);
    let todo: Vec<Todo> = runs.iter().map(|run| decide(run, &expanded, earlier.as_ref())).collect();
    let keep = if settings.load.keep { Keep::Everything } else { Keep::Nothing };
    let to_make = runs.iter().zip(&todo).filter(|(_, todo)| **todo != Todo::Keep);
    let to_make: Vec<Share> = to_make.map(|(run, _)| shares[run.cell]).collect();
    if let Some((dir, results)) = earlier.as_ref().filter(|_| !to_make.is_empty()) {
        check_same(&results.environment, &environment(dir.path()))?;
    }
    let estimate = estimate(expanded.cells.len(), &to_make, keep);
    let refusal =
        refusal(&estimate, &matrix.bounds, subjects.first().and_then(|subject| free(subject.as_ref())));
    Ok(Prepared {
        loaded,
        matrix,
        expanded,
        shares,
        subjects,
        venue,
        runs,
        todo,
        estimate,
        refusal,
        keep,
        canary: settings.load.calibrate,
        choice,
        earlier,
    })
}

/// What the command line says for all cells, an axis cannot say for each.
fn check_words(matrix: &Matrix, options: &LoadOptions) -> anyhow::Result<()> {
    if options.server.is_none() && options.hosts.is_empty() {
        return Ok(());
    }
    let says_where = |path: &str| path == "server" || path == "http" || path.starts_with("http.url");
    let mut places = matrix.axes.iter().flat_map(|axis| {
        let paths = axis.values.0.iter().flat_map(|(_, places)| places.names());
        paths.map(move |path| (&axis.name, path))
    });
    if let Some((axis, path)) = places.find(|(_, path)| says_where(path)) {
        bail!("--server: the axis `{axis}` says where each cell goes ({path}): leave out --server");
    }
    Ok(())
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
    settings: &Settings,
    earlier: Option<&Results>,
) -> anyhow::Result<Choice> {
    let asked = Choice::read(matrix, &settings.only)?;
    let Some(earlier) = earlier else { return Ok(asked) };
    let begun = Choice(earlier.axes.iter().map(|axis| (axis.name.clone(), axis.values.clone())).collect());
    ensure!(
        earlier.hash == hash(loaded),
        "--resume: the directory was made from another scenario or with other overrides: give the same, or begin anew \
         without --resume"
    );
    ensure!(
        settings.only.is_empty() || asked == begun,
        "--resume: other values were asked for when it was begun: leave out --only, or begin anew without --resume"
    );
    Ok(begun)
}

/// The scenario without what a matrix may take and what its tables show, so that both can be changed on the way.
fn hash(loaded: &Loaded) -> String {
    let matrix = loaded.scenario.matrix.clone();
    let matrix = matrix.map(|matrix| Matrix { bounds: Bounds::default(), show: Vec::new(), ..matrix });
    Loaded { scenario: Scenario { matrix, server: None, ..loaded.scenario.clone() }, ..loaded.clone() }.hash()
}

/// Checks every cell as far as that can be done before a server is looked for, and looks what it takes.
fn check_cells(cells: &[Cell], options: &LoadOptions) -> anyhow::Result<Vec<(Arc<dyn Subject>, Share)>> {
    let check = |cell: &Cell| {
        let subject = resolve(options.registry, &cell.loaded, &cell.plan, options.address())?;
        let share = run_estimate::of(&cell.plan, &subject.estimate(&cell.loaded, &cell.plan)?);
        anyhow::Ok((subject, share))
    };
    cells.iter().map(|cell| check(cell).with_context(|| format!("matrix: the cell {}", cell.label))).collect()
}

fn decide(run: &Planned, expanded: &Expanded, earlier: Option<&(MatrixDir, Results)>) -> Todo {
    let Some((dir, _)) = earlier else { return Todo::Make };
    todo(&dir.found(&run.directory), &expanded.cells[run.cell].plan)
}

/// Bytes that are free where a server of ours keeps its data.
fn free(subject: &dyn Subject) -> Option<u64> {
    let is_theirs = |server: &Server| matches!(server, Server::Uri(_));
    match subject.server()? {
        Server::Several(all) if all.iter().all(is_theirs) => return None,
        server if is_theirs(server) => return None,
        _ => {}
    }
    let room = rustix::fs::statvfs(std::env::temp_dir()).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

impl Prepared<'_> {
    /// What will be done, to be told.
    pub fn intent(&self) -> Intent<'_> {
        Intent {
            title: &self.loaded.scenario.title,
            estimate: &self.estimate,
            bounds: &self.matrix.bounds,
            left_out: &self.expanded.left_out,
            runs: &self.runs,
            made: self.todo.iter().filter(|todo| **todo == Todo::Keep).count(),
            keep: self.keep,
            venue: self.venue,
        }
    }

    /// The runs that are to be made.
    pub fn to_make(&self) -> impl Iterator<Item = &Planned> {
        self.runs.iter().zip(&self.todo).filter(|(_, todo)| **todo != Todo::Keep).map(|(run, _)| run)
    }

    /// What a run loads: a service on a server that stays in the database that is the run's own.
    pub fn subject(&self, run: &Planned) -> Arc<dyn Subject> {
        let subject = &self.subjects[run.cell];
        let own = if self.venue == Venue::Databases { subject.on_database(&run.collection) } else { None };
        own.unwrap_or_else(|| Arc::clone(subject))
    }

    /// What is known before the first run.
    pub fn results(&self) -> Results {
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

    /// A run as it stands before it is made.
    pub fn planned(&self, run: &Planned) -> CellRun {
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
