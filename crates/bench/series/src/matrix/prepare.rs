//! Plans a matrix before any server is contacted: cells, runs, cost and refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use plimsoll_host::machine::environment;
use plimsoll_measure::clock;
use plimsoll_measure::matrix::{Axis, Cell as CellResult, CellRun, FORMAT, Matrix as Results};

use crate::directory::SeriesDir;
use crate::isolation::{self, Exclusive};
use crate::matrix::cells::{Cell, Expanded, expand, refuse};
use crate::matrix::choice::Choice;
use crate::matrix::cost::{Estimate, Keep, estimate, refusal};
use crate::matrix::messages::Announcement;
use crate::matrix::run_estimate::{self, RunEstimate};
use crate::matrix::runs::{cell, is_complete, schedule};
use crate::same_machine::check_same;
use plimsoll_run::options::LoadOptions;
use plimsoll_run::run_dir;
use plimsoll_run::server_provisioning::Choice as Server;
use plimsoll_run::system::{Isolation, Subject, resolve};
use plimsoll_scenario::plan;
use plimsoll_scenario::{Bounds, Loaded, Matrix, Scenario};

/// The request for a matrix.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Values to run instead of the defaults, as `axis=value[,value]`.
    pub only: Vec<String>,
    /// The directory of an earlier matrix to complete.
    pub resume: Option<PathBuf>,
    /// The options of every run.
    pub load: LoadOptions,
}

/// The decisions before a server is contacted.
pub struct Prepared<'a> {
    /// The scenario with its matrix.
    pub loaded: &'a Loaded,
    /// The matrix in it.
    pub matrix: &'a Matrix,
    /// Its cells.
    pub expanded: Expanded,
    /// The estimate of one run of each cell.
    pub estimates: Vec<RunEstimate>,
    /// The system that each cell loads.
    pub subjects: Vec<Arc<dyn Subject>>,
    /// The isolation of all runs.
    pub isolation: Isolation,
    /// The runs in their order.
    pub runs: Vec<CellRun>,
    /// Whether each run is done already.
    pub made: Vec<bool>,
    /// The estimate of all missing runs.
    pub estimate: Estimate,
    /// The reason to refuse the matrix because of that estimate. `None` if it may start.
    pub refusal: Option<String>,
    /// Whether the data of the runs stays.
    pub keep: Keep,
    /// Whether Plimsoll calibrates itself before and after each load.
    pub calibrate: bool,
    /// The chosen values.
    pub choice: Choice,
    /// An earlier matrix to complete.
    pub earlier: Option<(SeriesDir, Results)>,
}

/// Makes every decision that does not need a server.
///
/// # Errors
/// When a value is invalid. The error names the first.
pub fn prepare<'a>(loaded: &'a Loaded, settings: &Settings) -> anyhow::Result<Prepared<'a>> {
    let matrix = loaded.scenario.matrix.as_ref().context("the scenario has no matrix")?;
    let whole = plan::shard(&settings.load.shard)?.of == 1;
    ensure!(whole, "--shard: a matrix is run by one process; leave it out");
    refuse(loaded, matrix)?;
    check_words(matrix, &settings.load)?;
    let earlier = settings.resume.as_deref().map(reopen).transpose()?;
    let choice = choose(loaded, matrix, settings, earlier.as_ref().map(|(_, results)| results))?;
    let expanded = expand(loaded, matrix, &choice)?;
    let checked = check_cells(&expanded.cells, &settings.load)?;
    let (subjects, estimates): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
    let isolation = isolation::common(subjects.iter().map(AsRef::as_ref))?;
    let own = |(cell, subject): (&Cell, &Arc<dyn Subject>)| {
        Exclusive::on_shared_server(subject.as_ref(), &cell.loaded)
    };
    let exclusive: Vec<_> = expanded.cells.iter().zip(&subjects).map(own).collect();
    let runs = schedule(&expanded.cells, matrix.repetitions, &exclusive);
    let last = runs.iter().map(|run| run.number).max().unwrap_or(0);
    exclusive.iter().try_for_each(|exclusive| exclusive.check(last))?;
    let was_complete = |run: &CellRun| {
        let found = earlier.as_ref().map(|(dir, _)| dir.found(&run.directory));
        found.is_some_and(|found| is_complete(&found, &expanded.cells[cell(run)].plan))
    };
    let made: Vec<bool> = runs.iter().map(was_complete).collect();
    let missing = runs.iter().zip(&made).filter(|(_, made)| !**made);
    let missing: Vec<RunEstimate> = missing.map(|(run, _)| estimates[cell(run)]).collect();
    if let Some((dir, results)) = earlier.as_ref().filter(|_| !missing.is_empty()) {
        check_same(&results.environment, &environment(dir.path()))?;
    }
    let keep = if settings.load.keep { Keep::Everything } else { Keep::Nothing };
    let estimate = estimate(expanded.cells.len(), &missing, keep);
    let free = subjects.first().and_then(|subject| free(subject.as_ref()));
    Ok(Prepared {
        refusal: refusal(&estimate, &matrix.bounds, free),
        calibrate: settings.load.calibrate,
        loaded,
        matrix,
        expanded,
        estimates,
        subjects,
        isolation,
        runs,
        made,
        estimate,
        keep,
        choice,
        earlier,
    })
}

/// Refuses an address on the command line if an axis sets it for each cell.
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
        bail!("--server: the axis `{axis}` sets each cell's server ({path}): leave out --server");
    }
    Ok(())
}

/// Opens an earlier matrix to complete it.
fn reopen(path: &Path) -> anyhow::Result<(SeriesDir, Results)> {
    let earlier = SeriesDir::open(path)?;
    ensure!(
        !run_dir::storage(path, 0).is_dir(),
        "--resume: {} holds the server's storage that --keep kept, and another server does not have its data: start anew \
         without --resume",
        path.display()
    );
    Ok(earlier)
}

/// The values of the command line, or those of the earlier matrix, if there is one.
fn choose(
    loaded: &Loaded,
    matrix: &Matrix,
    settings: &Settings,
    earlier: Option<&Results>,
) -> anyhow::Result<Choice> {
    let asked = Choice::read(matrix, &settings.only)?;
    let Some(earlier) = earlier else { return Ok(asked) };
    let earlier_choice =
        Choice(earlier.axes.iter().map(|axis| (axis.name.clone(), axis.values.clone())).collect());
    ensure!(
        earlier.hash == hash(loaded),
        "--resume: the directory was made from another scenario or with other overrides: give the same, or start anew \
         without --resume"
    );
    ensure!(
        settings.only.is_empty() || asked == earlier_choice,
        "--resume: the earlier matrix has other values: leave out --only, or start anew without --resume"
    );
    Ok(earlier_choice)
}

/// The hash of the scenario without the bounds and the shown operations: both may change on resume.
fn hash(loaded: &Loaded) -> String {
    let matrix = loaded.scenario.matrix.clone();
    let matrix = matrix.map(|matrix| Matrix { bounds: Bounds::default(), show: Vec::new(), ..matrix });
    let mut varied = loaded.clone();
    varied.scenario = Scenario { matrix, server: None, ..varied.scenario };
    varied.hash()
}

/// Checks every cell without a server, and estimates its runs.
fn check_cells(
    cells: &[Cell],
    options: &LoadOptions,
) -> anyhow::Result<Vec<(Arc<dyn Subject>, RunEstimate)>> {
    let check = |cell: &Cell| {
        let subject = resolve(options.registry, &cell.loaded, &cell.plan, options.address())?;
        let estimate = run_estimate::of(&cell.plan, &subject.estimate(&cell.loaded, &cell.plan)?);
        anyhow::Ok((subject, estimate))
    };
    cells.iter().map(|cell| check(cell).with_context(|| format!("matrix: the cell {}", cell.label))).collect()
}

/// Free bytes on the disk for the data of a server that this program starts. `None` if it starts no server.
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
    /// The announcement of the runs.
    pub fn announcement(&self) -> Announcement<'_> {
        Announcement {
            title: &self.loaded.scenario.title,
            estimate: &self.estimate,
            bounds: &self.matrix.bounds,
            left_out: &self.expanded.left_out,
            runs: &self.runs,
            made: self.made.iter().filter(|made| **made).count(),
            keep: self.keep,
            isolation: &self.isolation,
        }
    }

    /// The missing runs and their indices.
    pub fn missing(&self) -> impl Iterator<Item = (usize, &CellRun)> {
        self.runs.iter().enumerate().filter(|(index, _)| !self.made[*index])
    }

    /// The system that a run loads, with the run's own database if it has one.
    pub fn subject(&self, run: &CellRun) -> Arc<dyn Subject> {
        let subject = &self.subjects[cell(run)];
        let has_database = matches!(self.isolation, Isolation::Database { .. });
        let own = if has_database { subject.on_database(&run.collection) } else { None };
        own.unwrap_or_else(|| Arc::clone(subject))
    }

    /// The results before the first run.
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
            runs: self.runs.clone(),
            ..Results::default()
        }
    }
}

fn result(cell: &Cell) -> CellResult {
    CellResult { number: cell.number, values: cell.values.iter().cloned().collect(), ..CellResult::default() }
}
