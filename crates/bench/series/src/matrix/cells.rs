//! Expands a matrix into cells, each a complete scenario.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use plimsoll_measure::matrix::LeftOut;
use plimsoll_mongo::scenario::Existing;
use serde_json::Value as Json;

use super::check::{check, offer};
use super::choice::Choice;
use plimsoll_scenario::Plan;
use plimsoll_scenario::{LeaveOut, Loaded, Matrix, put};

/// The maximum number of combinations, including excluded ones.
const COMBINATIONS_MAX: u64 = 100_000;
/// The maximum number of cells.
const CELLS_MAX: usize = 1000;

/// One combination of values, ready to run.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its number, from 1.
    pub number: u32,
    /// Axis and value, in the order of the axes.
    pub values: Vec<(String, String)>,
    /// Its values in a few words.
    pub label: String,
    /// The scenario with its values.
    pub loaded: Loaded,
    /// Its plan.
    pub plan: Plan,
}

/// The requested cells.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// The cells in order.
    pub cells: Vec<Cell>,
    /// The excluded combinations, with their reasons.
    pub left_out: Vec<LeftOut>,
}

/// Expands the matrix in `loaded` into the cells of `choice`.
///
/// # Errors
/// When the matrix or a cell is invalid.
pub fn expand(loaded: &Loaded, matrix: &Matrix, choice: &Choice) -> anyhow::Result<Expanded> {
    ensure!(
        loaded.scenario.existing == Existing::Refuse,
        "existing: each cell of a matrix runs in its own new collection: leave out `existing`"
    );
    let combinations = choice.combinations();
    ensure!(
        combinations <= COMBINATIONS_MAX,
        "matrix: {combinations} combinations; pick values with --only until there are at most {COMBINATIONS_MAX}"
    );
    let base = loaded.tree()?;
    let mut expanded = Expanded { cells: Vec::new(), left_out: rules(matrix) };
    for index in 0..combinations {
        let values = choice.combination(index);
        if let Some(rule) = matrix.leave_out.iter().position(|rule| applies(rule, &values)) {
            expanded.left_out[rule].cells += 1;
            continue;
        }
        ensure!(
            expanded.cells.len() < CELLS_MAX,
            "matrix: more than {CELLS_MAX} cells; pick values with --only"
        );
        let number = expanded.cells.len() as u32 + 1;
        expanded.cells.push(cell(loaded, matrix, &base, choice, number, &values)?);
    }
    if expanded.cells.is_empty() {
        bail!("matrix.leave_out excludes every requested cell: remove a rule, or request other cells");
    }
    expanded.left_out.retain(|rule| rule.cells > 0);
    check_shown(matrix, &expanded.cells)?;
    Ok(expanded)
}

/// Checks that every shown operation exists in a cell.
fn check_shown(matrix: &Matrix, cells: &[Cell]) -> anyhow::Result<()> {
    let operations: BTreeSet<&str> =
        cells.iter().flat_map(|cell| &cell.plan.operations).map(|(name, _)| name.as_str()).collect();
    match matrix.show.iter().find(|name| !operations.contains(name.as_str())) {
        Some(name) => {
            let known: Vec<_> = operations.into_iter().collect();
            bail!("matrix.show: no cell has an operation `{name}`; {}", offer(name, &known))
        }
        None => Ok(()),
    }
}

/// Refuses an invalid matrix.
///
/// # Errors
/// When a value is invalid. The error names the first.
pub fn refuse(loaded: &Loaded, matrix: &Matrix) -> anyhow::Result<()> {
    check(matrix, &loaded.tree()?)
}

fn rules(matrix: &Matrix) -> Vec<LeftOut> {
    let when = |rule: &LeaveOut| -> BTreeMap<_, _> {
        rule.when.iter().map(|(axis, values)| (axis.clone(), values.0.clone())).collect()
    };
    let rule = |rule| LeftOut { when: when(rule), because: rule.because.clone(), cells: 0 };
    matrix.leave_out.iter().map(rule).collect()
}

fn applies(rule: &LeaveOut, values: &[(&str, &str)]) -> bool {
    rule.when.iter().all(|(axis, names)| values.iter().any(|(name, value)| name == axis && names.has(value)))
}

fn cell(
    loaded: &Loaded,
    matrix: &Matrix,
    base: &Json,
    choice: &Choice,
    number: u32,
    values: &[(&str, &str)],
) -> anyhow::Result<Cell> {
    let words: Vec<_> = values.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let here = || format!("matrix: the cell {}", words.join(" "));
    let mut filled = fill(loaded, matrix, base, values).with_context(here)?;
    let label = label(choice, values);
    filled.scenario.title = format!("{}: {label}", loaded.scenario.title);
    let plan = Plan::build(&filled).with_context(here)?;
    let values = values.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect();
    Ok(Cell { number, values, label, loaded: filled, plan })
}

/// The scenario with `values`, applied in the order of the axes.
fn fill(loaded: &Loaded, matrix: &Matrix, base: &Json, values: &[(&str, &str)]) -> anyhow::Result<Loaded> {
    let mut tree = base.clone();
    for (axis, (name, value)) in matrix.axes.iter().zip(values) {
        for (path, what) in axis.values.get(value).into_iter().flat_map(|places| &places.0) {
            put(&mut tree, path, what.clone()).with_context(|| format!("{name}={value}: {path}"))?;
        }
    }
    loaded.with_tree(tree)
}

/// The values that distinguish a cell; all values if there is only one cell.
fn label(choice: &Choice, values: &[(&str, &str)]) -> String {
    let alone = !values.iter().any(|(axis, _)| choice.varies(axis));
    let shown = values.iter().filter(|(axis, _)| alone || choice.varies(axis));
    let words = |(name, value): &(&str, &str)| {
        plimsoll_measure::matrix::Axis { name: (*name).to_owned(), values: Vec::new() }.words(value)
    };
    shown.map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use plimsoll_scenario as scenario;

    /// A scenario with a matrix of two strategies and three sizes; one size is not a default.
    pub const SCENARIO: &str = "
title: writes
collection: plimsoll.writes
document: {n: {$number: {}}, text: {$text: {bytes: 100}}}
phases:
  - load:
      insert: {operation: {insert: {batch: 1}}, arrivals: {closed: {writers: 1}}}
    stop: {documents: 1}
matrix:
  axes:
    - name: strategy
      values:
        one: {phases.0.load.insert.operation.insert.batch: 1}
        many: {phases.0.load.insert.operation: {insert: {batch: 1000}}, timeout: 60s}
    - name: size
      default: [10K, 1M]
      values:
        10K: {phases.0.stop.documents: 10000}
        1M: {phases.0.stop.documents: 1000000}
        10M: {phases.0.stop: {documents: 10000000, duration: 10m}}
  leave_out:
    - {when: {strategy: one, size: [1M, 10M]}, because: it takes too long}
";

    /// Reads a scenario text.
    pub fn loaded(text: &str) -> Loaded {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writes.yaml");
        std::fs::write(&path, text).unwrap();
        scenario::load(path.to_str().unwrap(), &[], None).unwrap()
    }

    /// The cells of a scenario text.
    pub fn expanded(text: &str, only: &[&str]) -> anyhow::Result<Expanded> {
        let loaded = loaded(text);
        let matrix = loaded.scenario.matrix.clone().unwrap();
        refuse(&loaded, &matrix)?;
        let words: Vec<_> = only.iter().map(|&word| word.to_owned()).collect();
        expand(&loaded, &matrix, &Choice::read(&matrix, &words)?)
    }

    #[test]
    fn each_cell_is_a_scenario_with_its_values() {
        let expanded = expanded(SCENARIO, &[]).unwrap();
        let labels: Vec<_> = expanded.cells.iter().map(|cell| cell.label.as_str()).collect();
        assert_eq!(labels, ["one, 10K", "many, 10K", "many, 1M"]);
        let last = &expanded.cells[2];
        assert_eq!((last.number, last.plan.phases[0].stop.documents), (3, Some(1_000_000)));
        assert_eq!(last.plan.operations[0].1.documents(), 1000);
        assert_eq!(last.loaded.scenario.timeout.to_string(), "1m");
        assert_eq!(last.loaded.scenario.title, "writes: many, 1M");
        assert_eq!(last.loaded.scenario.matrix, None);
        assert_eq!(expanded.left_out.len(), 1);
        assert_eq!(
            (expanded.left_out[0].cells, expanded.left_out[0].because.as_str()),
            (1, "it takes too long")
        );
    }

    #[test]
    fn a_value_that_is_not_a_default_runs_on_request() {
        let expanded = expanded(SCENARIO, &["size=10M"]).unwrap();
        assert_eq!(expanded.cells.len(), 1);
        assert_eq!(expanded.cells[0].label, "many");
        assert_eq!(expanded.left_out[0].cells, 1);
    }

    #[test]
    fn an_invalid_cell_is_named() {
        let wrong = |from: &str, to: &str, only: &[&str]| {
            format!("{:#}", expanded(&SCENARIO.replace(from, to), only).unwrap_err())
        };
        let message = wrong("phases.0.stop.documents: 10000}", "phases.0.stop.document: 10000}", &[]);
        assert!(
            message.contains("the cell strategy=one size=10K") && message.contains("`documents`"),
            "{message}"
        );
        let message = wrong("operation.insert.batch: 1}", "operation.insert.batch: many}", &[]);
        assert!(message.contains("strategy=one") && message.contains("many"), "{message}");
        let message = wrong("phases.0.stop.documents: 10000}", "phases.0.stop: {}}", &[]);
        assert!(message.contains("a phase without an end"), "{message}");
        let message = wrong("phases.0.stop.documents: 10000}", "phases.3.stop: {}}", &[]);
        assert!(message.contains("size=10K: phases.3.stop: `phases` has no `3`"), "{message}");
        let message = wrong("title: writes", "existing: drop\ntitle: writes", &[]);
        assert!(message.contains("leave out `existing`"), "{message}");
        let message = wrong("  leave_out:", "  show: [isnert]\n  leave_out:", &[]);
        assert!(message.contains("no cell has an operation `isnert`; did you mean `insert`?"), "{message}");
        let message = wrong("x", "x", &["strategy=one", "size=10M"]);
        assert!(message.contains("excludes every requested cell"), "{message}");
    }

    #[test]
    fn every_cell_of_a_shipped_matrix_can_be_planned() {
        use crate::matrix::choice::Choice;
        for builtin in scenario::builtins() {
            let loaded = scenario::load(builtin.name, &[], None).unwrap();
            let Some(matrix) = loaded.scenario.matrix.clone() else { continue };
            refuse(&loaded, &matrix).unwrap();
            let every: Vec<_> = matrix.axes.iter().map(|axis| format!("{}=all", axis.name)).collect();
            for words in [Vec::new(), every] {
                let choice = Choice::read(&matrix, &words).unwrap();
                assert!(!expand(&loaded, &matrix, &choice).unwrap().cells.is_empty(), "{}", builtin.name);
            }
        }
    }
}
