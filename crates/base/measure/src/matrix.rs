//! Defines the results of a matrix of runs: `matrix.json`, format 1.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, ServerFacts};
use crate::inspection::Size;
use crate::run::{Run, Verdict};

mod best;
mod figures;

pub use figures::{Figures, OperationFigures, Promises, Spread};

/// The version of the file's form. It grows when a key changes its meaning or goes away; new keys do not change it.
pub const FORMAT: u32 = 1;

/// Runs of one scenario with varied values. Unknown values are absent or null.
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
    /// The verdict of the matrix: the worst verdict of its cells, and invalid while it is incomplete.
    pub verdict: Verdict,
    /// The server; empty before the first run.
    pub server: ServerFacts,
    /// The machine.
    pub environment: Environment,
    /// The varied values, in order: the last axis changes fastest.
    pub axes: Vec<Axis>,
    /// The operations in tables and charts; all if empty.
    #[serde(default)]
    pub show: Vec<String>,
    /// The number of runs of every cell.
    pub repetitions: u32,
    /// The combinations left out.
    pub left_out: Vec<LeftOut>,
    /// One for each combination in use.
    pub cells: Vec<Cell>,
    /// The runs in the order in which they are made: all cells once, then all again.
    pub runs: Vec<CellRun>,
}

/// A varied dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The names of its values, in order.
    pub values: Vec<String>,
}

/// Combinations that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The values, by axis.
    pub when: BTreeMap<String, Vec<String>>,
    /// Why.
    pub because: String,
    /// The number of cells left out.
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
    /// Notes on its runs.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Its figures; absent before the first run.
    pub figures: Option<Figures>,
}

/// One run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellRun {
    /// Its number, from 1, in the order in which runs are made.
    pub number: u32,
    /// The number of its cell.
    pub cell: u32,
    /// Its repetition, from 1.
    pub repetition: u32,
    /// Its run directory, below that of the matrix.
    pub directory: String,
    /// The collection or the database of its data; empty if it had no separate one.
    pub collection: String,
    /// Its state.
    pub state: State,
    /// Its verdict; absent before its end.
    pub verdict: Option<Verdict>,
    /// The reasons for a verdict other than `pass`, or for a missing verdict.
    pub reasons: Vec<String>,
    /// Notes.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Its own exit code; absent before its end.
    pub exit: Option<u8>,
    /// The size of its collection or of its service's database, as far as known.
    pub size: Option<Size>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not started.
    #[default]
    Planned,
    /// Started and not ended.
    Begun,
    /// Ended.
    Done,
    /// Its load ended early, and its ledger was closed.
    Interrupted,
    /// The run could not begin or go on.
    Failed,
}

impl Axis {
    /// A value in a list: a bare number gets the name of its axis.
    pub fn words(&self, value: &str) -> String {
        let is_bare = value.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        if is_bare { format!("{} {value}", self.name) } else { value.to_owned() }
    }
}

impl Matrix {
    /// Sums up every cell from its runs, and the whole from its cells.
    pub fn conclude(&mut self, figures: impl Fn(&CellRun) -> Option<Run>) {
        for cell in &mut self.cells {
            let runs: Vec<&CellRun> = self.runs.iter().filter(|run| run.cell == cell.number).collect();
            let counted = runs.iter().filter(|run| run.state == State::Done);
            let measured: Vec<_> = counted.filter_map(|run| Some((figures(run)?, run.size))).collect();
            cell.figures = Figures::of(&measured);
            cell.verdict = runs.iter().filter_map(|run| run.verdict).max_by_key(|verdict| badness(*verdict));
            cell.reasons = distinct(&runs, |run| &run.reasons);
            cell.notes = distinct(&runs, |run| &run.notes);
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

/// The sentences of several runs, without repetitions.
fn distinct(runs: &[&CellRun], pick: fn(&CellRun) -> &Vec<String>) -> Vec<String> {
    let all: BTreeSet<&String> = runs.iter().flat_map(|run| pick(run)).collect();
    all.into_iter().cloned().collect()
}

/// The worse of two verdicts.
pub fn worse(one: Verdict, other: Verdict) -> Verdict {
    if badness(one) > badness(other) { one } else { other }
}

/// The total size of a collection on several servers; unknown if one of them does not report it.
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
    use crate::integrity::Integrity;
    use crate::run::{Client, Operation};

    pub(super) fn run(documents_per_s: f64, lost: u64) -> Run {
        let operation = Operation { documents: 10, documents_per_s, ..Operation::default() };
        Run {
            operations: BTreeMap::from([("insert".to_owned(), operation)]),
            integrity: Some(Integrity { acknowledged: 10, found: 10 - lost, lost, ..Integrity::default() }),
            client: Client { wire_bytes_per_document: Some(documents_per_s), ..Client::default() },
            ..Run::default()
        }
    }

    pub(super) fn matrix(rates: &[(&str, &str, f64)]) -> Matrix {
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
    fn a_bare_number_gets_the_name_of_its_axis() {
        let axis = Axis { name: "w".into(), values: Vec::new() };
        assert_eq!((axis.words("0"), axis.words("10K")), ("w 0".to_owned(), "10K".to_owned()));
    }

    #[test]
    fn sizes_on_several_servers_add_up_if_all_are_reported() {
        let part = |storage_bytes| Size { data_bytes: Some(7), storage_bytes, ..Size::default() };
        let sum = together(&[part(Some(3)), part(Some(4))]).unwrap();
        assert_eq!((sum.data_bytes, sum.storage_bytes, sum.index_bytes), (Some(14), Some(7), None));
        assert_eq!(together(&[part(Some(3)), part(None)]).unwrap().storage_bytes, None);
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn a_matrix_of_an_older_version_can_be_read() {
        let mut older = serde_json::to_value(matrix(&[("one", "10K", 5.0)])).unwrap();
        assert!(older.as_object_mut().unwrap().remove("show").is_some());
        let insert = older["cells"][0]["figures"]["operations"]["insert"].as_object_mut().unwrap();
        for key in ["documents_per_operation", "client_cpu_us_per_operation"] {
            assert!(insert.remove(key).is_some(), "{key}");
        }
        let figures = older["cells"][0]["figures"].as_object_mut().unwrap();
        for key in ["server_cpu_us_per_operation", "server_cores", "data_bytes", "disk_bytes"] {
            assert!(figures.remove(key).is_some(), "{key}");
        }
        let matrix: Matrix = serde_json::from_value(older).unwrap();
        assert_eq!(matrix.times_least_cpu(&matrix.cells[0], "insert"), None);
    }

    #[test]
    fn a_matrix_has_the_verdict_of_its_worst_run_and_is_invalid_before_its_end() {
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
