//! The results of a matrix of runs: `matrix.json`, format 1.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, ServerFacts};
use crate::inspection::Size;
use crate::integrity::{Integrity, Proof};
use crate::run::{Operation, Run, Verdict};

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// Runs of one scenario with different values, side by side. What cannot be known is absent or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Version of this form: 1.
    pub format: u32,
    /// The scenario's name.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// The question that it answers.
    pub question: Option<String>,
    /// SHA-256 of the scenario as resolved, its bounds left out, in hex.
    pub hash: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// When it was first started, in UTC (RFC 3339).
    pub started: String,
    /// The same in milliseconds since 1970.
    pub started_ms: u64,
    /// Whether every run was made to its end.
    pub complete: bool,
    /// What the matrix as a whole is worth: the worst verdict of its cells, and invalid while it is not complete.
    pub verdict: Verdict,
    /// Against what; empty before the first run.
    pub server: ServerFacts,
    /// On what machine.
    pub environment: Environment,
    /// What is varied, in order: the last one changes fastest.
    pub axes: Vec<Axis>,
    /// How often every cell is run.
    pub repetitions: u32,
    /// Combinations that are not run.
    pub left_out: Vec<LeftOut>,
    /// One for each combination that is run.
    pub cells: Vec<Cell>,
    /// The runs in the order in which they are made: all cells once, then all again.
    pub runs: Vec<CellRun>,
}

/// Something that is varied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The names of the values that were asked for, in order.
    pub values: Vec<String>,
}

/// Combinations that make no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The values, by axis.
    pub when: BTreeMap<String, Vec<String>>,
    /// Why.
    pub because: String,
    /// How many of the combinations that were asked for.
    pub cells: u32,
}

/// One combination of values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its number, from 1.
    pub number: u32,
    /// The name of its value on every axis.
    pub values: BTreeMap<String, String>,
    /// The worst verdict of its runs; absent before the first one.
    pub verdict: Option<Verdict>,
    /// Why it is not `pass`.
    pub reasons: Vec<String>,
    /// What else should be known of its runs.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What was measured; absent before the first run.
    pub figures: Option<Figures>,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellRun {
    /// Its number, from 1, in the order in which runs are made.
    pub number: u32,
    /// The number of its cell.
    pub cell: u32,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Its run directory, below that of the matrix.
    pub directory: String,
    /// The collection that it wrote to.
    pub collection: String,
    /// How far it is.
    pub state: State,
    /// What it is worth; absent before its end.
    pub verdict: Option<Verdict>,
    /// Why the verdict is not `pass`, or why there is none.
    pub reasons: Vec<String>,
    /// What else should be known of it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The exit code that it deserves by itself; absent before its end.
    pub exit: Option<u8>,
    /// What its collection took, as far as the server tells.
    pub size: Option<Size>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not begun.
    #[default]
    Planned,
    /// Begun, and not ended if the matrix has.
    Begun,
    /// Made to its end.
    Done,
    /// Its load was ended early, and its books were closed.
    Interrupted,
    /// It could not be made.
    Failed,
}

/// One figure over the repetitions of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The middle one; of an even number the lower middle one, so that it is always one that was measured.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many runs know it.
    pub of: u32,
}

/// What was measured of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Runs that these figures are of.
    pub runs: u32,
    /// What each operation did, by name.
    pub operations: BTreeMap<String, OperationFigures>,
    /// Whether what was promised was there, over all runs.
    pub integrity: Option<Promises>,
    /// CPU of the tool ÷ documents, in microseconds.
    pub client_cpu_us_per_document: Option<Spread>,
    /// CPU of the server's process ÷ documents, in microseconds; local servers only.
    pub server_cpu_us_per_document: Option<Spread>,
    /// Bytes sent and received ÷ documents.
    pub wire_bytes_per_document: Option<Spread>,
    /// Bytes that the storage engine wrote to disk ÷ documents; absent where the server does not tell.
    pub written_bytes_per_document: Option<Spread>,
    /// Bytes of the documents, uncompressed, ÷ documents; absent where the server does not tell.
    pub data_bytes_per_document: Option<Spread>,
    /// Bytes that the collection took on disk with its indexes ÷ documents; absent where the server does not tell.
    pub disk_bytes_per_document: Option<Spread>,
    /// What the tool can do against a server that answers at once ÷ what it did.
    pub headroom: Option<Spread>,
}

/// What one operation did in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationFigures {
    /// Documents acknowledged, over all runs.
    pub documents: u64,
    /// Operations that failed, over all runs.
    pub errors: u64,
    /// Documents acknowledged per second.
    pub documents_per_s: Option<Spread>,
    /// Operations acknowledged per second.
    pub operations_per_s: Option<Spread>,
    /// Median response time in nanoseconds; absent where too few values support it.
    pub response_p50_ns: Option<Spread>,
    /// 99th percentile of the response time in nanoseconds, likewise.
    pub response_p99_ns: Option<Spread>,
    /// Longest response time in nanoseconds.
    pub response_max_ns: Option<Spread>,
}

/// Documents promised against documents there, added up over the runs of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promises {
    /// What the numbers below are worth, in the run that could show the least.
    pub proof: Proof,
    /// Documents that the server acknowledged.
    pub acknowledged: u64,
    /// Acknowledged documents that are there.
    pub found: u64,
    /// Acknowledged documents that are not there.
    pub lost: u64,
    /// Documents that are there though they were never sent, or were rejected.
    pub phantom: u64,
    /// Documents that are there more than once.
    pub duplicated: u64,
    /// Documents whose content does not follow from their receipt.
    pub corrupted: u64,
    /// Documents of unknown outcome, there or not.
    pub unknown: u64,
    /// Whether every run kept what it promised.
    pub holds: bool,
}

impl Axis {
    /// A value as it is told among others: a bare number says nothing without the axis.
    pub fn words(&self, value: &str) -> String {
        let is_bare = value.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        if is_bare { format!("{} {value}", self.name) } else { value.to_owned() }
    }
}

impl Spread {
    /// The spread of `values`; nothing if there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = values[(values.len() - 1) / 2];
        Some(Self { median, min, max, of: u32::try_from(values.len()).unwrap_or(u32::MAX) })
    }
}

impl Figures {
    /// The figures of a cell from its runs and what their collections took; nothing without a run.
    pub fn of(runs: &[(Run, Option<Size>)]) -> Option<Self> {
        let names = runs.iter().flat_map(|(run, _)| run.operations.keys());
        let over = |pick: &dyn Fn(&Run, Option<&Size>) -> Option<f64>| {
            Spread::of(runs.iter().filter_map(|(run, size)| pick(run, size.as_ref())))
        };
        (!runs.is_empty()).then(|| Self {
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            operations: names.map(|name| (name.clone(), OperationFigures::of(name, runs))).collect(),
            integrity: Promises::of(runs.iter().filter_map(|(run, _)| run.integrity.as_ref())),
            client_cpu_us_per_document: over(&|run, _| run.client.cpu_us_per_document),
            server_cpu_us_per_document: over(&|run, _| run.server_cost.cpu_us_per_document),
            wire_bytes_per_document: over(&|run, _| run.client.wire_bytes_per_document),
            written_bytes_per_document: over(&|run, _| run.server_cost.written_bytes_per_document),
            data_bytes_per_document: over(&|run, size| per_document(run, size?.data_bytes)),
            disk_bytes_per_document: over(&|run, size| per_document(run, on_disk(size?))),
            headroom: over(&|run, _| run.client.headroom),
        })
    }
}

/// Bytes of a collection on disk with its indexes.
fn on_disk(size: &Size) -> Option<u64> {
    Some(size.storage_bytes? + size.index_bytes.unwrap_or(0))
}

/// `bytes` for each document that the audit saw in the collection.
fn per_document(run: &Run, bytes: Option<u64>) -> Option<f64> {
    let integrity = run.integrity.as_ref()?;
    let there = integrity.found + integrity.unknown_present;
    (there > 0).then(|| bytes.map(|bytes| bytes as f64 / there as f64))?
}

impl OperationFigures {
    fn of(name: &str, runs: &[(Run, Option<Size>)]) -> Self {
        let seen: Vec<&Operation> = runs.iter().filter_map(|(run, _)| run.operations.get(name)).collect();
        let time = |pick: fn(&Operation) -> Option<u64>| {
            Spread::of(seen.iter().filter_map(|operation| pick(operation)).map(|ns| ns as f64))
        };
        Self {
            documents: seen.iter().map(|operation| operation.documents).sum(),
            errors: seen.iter().flat_map(|operation| operation.errors.values()).sum(),
            documents_per_s: Spread::of(seen.iter().map(|operation| operation.documents_per_s)),
            operations_per_s: Spread::of(seen.iter().map(|operation| operation.rate_per_s)),
            response_p50_ns: time(|operation| operation.response_ns.p50),
            response_p99_ns: time(|operation| operation.response_ns.p99),
            response_max_ns: time(|operation| operation.response_ns.max),
        }
    }
}

impl Promises {
    fn of<'a>(runs: impl Iterator<Item = &'a Integrity>) -> Option<Self> {
        runs.fold(None, |sum, run| {
            let sum = sum.unwrap_or(Self { holds: true, ..Self::default() });
            Some(Self {
                proof: if worth(run.proof) > worth(sum.proof) { run.proof } else { sum.proof },
                acknowledged: sum.acknowledged + run.acknowledged,
                found: sum.found + run.found,
                lost: sum.lost + run.lost,
                phantom: sum.phantom + run.phantom,
                duplicated: sum.duplicated + run.duplicated,
                corrupted: sum.corrupted + run.corrupted,
                unknown: sum.unknown + run.unknown_present + run.unknown_absent,
                holds: sum.holds && run.holds(),
            })
        })
    }
}

/// How little a proof is worth: the more, the higher.
const fn worth(proof: Proof) -> u8 {
    match proof {
        Proof::Proven => 0,
        Proof::Counted => 1,
        Proof::FireAndForget => 2,
        Proof::NotApplicable => 3,
        Proof::NotAudited => 4,
    }
}

impl Matrix {
    /// Names of all operations of all cells.
    pub fn operations(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .cells
            .iter()
            .filter_map(|cell| cell.figures.as_ref())
            .flat_map(|figures| figures.operations.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What `cell` reaches in `operation` as a share of the best cell of its group: those that differ from it on the
    /// first axis only. Nothing where it is not known, or the cell has nothing to be compared with.
    pub fn share_of_best(&self, cell: &Cell, operation: &str) -> Option<f64> {
        let first = self.axes.first()?;
        let rate =
            |cell: &Cell| Some(cell.figures.as_ref()?.operations.get(operation)?.documents_per_s?.median);
        let beside = |other: &&Cell| {
            cell.values
                .iter()
                .all(|(axis, value)| *axis == first.name || other.values.get(axis) == Some(value))
        };
        let group: Vec<f64> = self.cells.iter().filter(beside).filter_map(rate).collect();
        let best = group.iter().copied().fold(0.0, f64::max);
        (group.len() > 1 && best > 0.0).then(|| rate(cell).map(|rate| rate / best))?
    }

    /// Sums up every cell from its runs, and the whole from its cells.
    pub fn conclude(&mut self, figures: impl Fn(&CellRun) -> Option<Run>) {
        for cell in &mut self.cells {
            let runs: Vec<&CellRun> = self.runs.iter().filter(|run| run.cell == cell.number).collect();
            let counted = runs.iter().filter(|run| run.state == State::Done);
            let measured: Vec<_> = counted.filter_map(|run| Some((figures(run)?, run.size))).collect();
            cell.figures = Figures::of(&measured);
            cell.verdict = runs.iter().filter_map(|run| run.verdict).max_by_key(|verdict| badness(*verdict));
            cell.reasons = told(&runs, |run| &run.reasons);
            cell.notes = told(&runs, |run| &run.notes);
        }
        self.complete = self.runs.iter().all(|run| run.state == State::Done);
        let worst = self.runs.iter().filter_map(|run| run.verdict).max_by_key(|verdict| badness(*verdict));
        self.verdict = match worst {
            Some(Verdict::Fail) => Verdict::Fail,
            Some(worst) if self.complete => worst,
            _ => Verdict::Invalid,
        };
    }
}

/// What is told of several runs, each sentence once.
fn told(runs: &[&CellRun], pick: fn(&CellRun) -> &Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = runs.iter().flat_map(|run| pick(run)).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// The verdict that says more against a run.
pub fn worse(one: Verdict, other: Verdict) -> Verdict {
    if badness(one) > badness(other) { one } else { other }
}

/// What parts of a collection on several servers take together; what one of them does not tell is not known.
pub fn together(parts: &[Size]) -> Option<Size> {
    let sum = |pick: fn(&Size) -> Option<u64>| parts.iter().map(pick).sum::<Option<u64>>();
    (!parts.is_empty()).then(|| Size {
        data_bytes: sum(|part| part.data_bytes),
        storage_bytes: sum(|part| part.storage_bytes),
        index_bytes: sum(|part| part.index_bytes),
        ..Size::default()
    })
}

const fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Invalid => 1,
        Verdict::Fail => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Client;

    fn run(documents_per_s: f64, lost: u64) -> Run {
        let operation = Operation { documents: 10, documents_per_s, ..Operation::default() };
        Run {
            operations: BTreeMap::from([("insert".to_owned(), operation)]),
            integrity: Some(Integrity { acknowledged: 10, found: 10 - lost, lost, ..Integrity::default() }),
            client: Client { wire_bytes_per_document: Some(documents_per_s), ..Client::default() },
            ..Run::default()
        }
    }

    fn matrix(rates: &[(&str, &str, f64)]) -> Matrix {
        let cell = |(index, (strategy, size, rate)): (usize, &(&str, &str, f64))| Cell {
            number: index as u32 + 1,
            values: [("strategy", strategy), ("size", size)]
                .map(|(axis, value)| (axis.to_owned(), (*value).to_owned()))
                .into(),
            figures: Figures::of(&[(run(*rate, 0), None)]),
            ..Cell::default()
        };
        let axis = |name: &str| Axis { name: name.to_owned(), values: Vec::new() };
        Matrix {
            axes: vec![axis("strategy"), axis("size")],
            cells: rates.iter().enumerate().map(cell).collect(),
            ..Matrix::default()
        }
    }

    #[test]
    fn a_spread_names_a_value_that_was_measured() {
        let spread = Spread::of([4.0, 1.0, 2.0, 8.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max, spread.of), (2.0, 1.0, 8.0, 4));
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_bare_number_is_told_with_its_axis() {
        let axis = Axis { name: "w".into(), values: Vec::new() };
        assert_eq!((axis.words("0"), axis.words("10K")), ("w 0".to_owned(), "10K".to_owned()));
    }

    #[test]
    fn promises_add_up_over_the_runs_of_a_cell() {
        let figures = Figures::of(&[(run(5.0, 0), None), (run(7.0, 3), None)]).unwrap();
        let integrity = figures.integrity.unwrap();
        assert_eq!((integrity.acknowledged, integrity.found, integrity.lost), (20, 17, 3));
        assert!(!integrity.holds);
        assert_eq!(figures.operations["insert"].documents, 20);
        assert_eq!(figures.wire_bytes_per_document.unwrap().max, 7.0);
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn bytes_on_disk_are_divided_by_the_documents_that_are_there() {
        let size = Size {
            data_bytes: Some(700),
            storage_bytes: Some(500),
            index_bytes: Some(200),
            ..Size::default()
        };
        let figures = Figures::of(&[(run(5.0, 3), Some(size))]).unwrap();
        assert_eq!(figures.disk_bytes_per_document.unwrap().median, 100.0);
        assert_eq!(figures.data_bytes_per_document.unwrap().median, 100.0);
    }

    #[test]
    fn parts_on_several_servers_add_up_unless_one_does_not_tell() {
        let part = |storage_bytes| Size { data_bytes: Some(7), storage_bytes, ..Size::default() };
        let sum = together(&[part(Some(3)), part(Some(4))]).unwrap();
        assert_eq!((sum.data_bytes, sum.storage_bytes, sum.index_bytes), (Some(14), Some(7), None));
        assert_eq!(together(&[part(Some(3)), part(None)]).unwrap().storage_bytes, None);
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn a_cell_is_compared_with_those_that_differ_on_the_first_axis_only() {
        let matrix =
            matrix(&[("one", "10K", 5.0), ("one", "1M", 6.0), ("all", "10K", 20.0), ("grid", "1M", 3.0)]);
        let share = |index: usize| matrix.share_of_best(&matrix.cells[index], "insert");
        assert_eq!((share(0), share(2)), (Some(0.25), Some(1.0)));
        assert_eq!((share(1), share(3)), (Some(1.0), Some(0.5)));
        assert_eq!(matrix.share_of_best(&matrix.cells[0], "find"), None);
    }

    #[test]
    fn a_matrix_is_worth_what_its_worst_run_is_worth_and_nothing_before_its_end() {
        let made = |cell, state, verdict| CellRun { cell, state, verdict, ..CellRun::default() };
        let mut matrix = matrix(&[("one", "10K", 5.0), ("all", "10K", 20.0)]);
        matrix.runs = vec![made(1, State::Done, Some(Verdict::Pass)), made(2, State::Planned, None)];
        matrix.conclude(|_| Some(run(5.0, 0)));
        assert_eq!((matrix.complete, matrix.verdict), (false, Verdict::Invalid));
        assert_eq!((matrix.cells[0].figures.is_some(), matrix.cells[1].figures.is_some()), (true, false));
        matrix.runs[1] = made(2, State::Done, Some(Verdict::Fail));
        matrix.conclude(|_| Some(run(5.0, 0)));
        assert_eq!((matrix.complete, matrix.verdict), (true, Verdict::Fail));
        assert_eq!(matrix.cells[0].verdict, Some(Verdict::Pass));
    }
}
