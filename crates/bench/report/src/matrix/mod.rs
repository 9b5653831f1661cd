//! Renders a matrix of runs for a terminal and as a page.

mod measured;
mod page;
mod panels;
mod tables;

pub use page::page;

use std::collections::BTreeSet;

use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::matrix::{Cell, Matrix, State};
use plimsoll_measure::run::Run;

use crate::layout::{Document, Screen, titled, wrap};
use crate::tables::verdict_word;
use crate::units::{Quantile, counted_in, exact, exact_rate, named_percentile, sent_in};

/// The maximum number of listed reasons.
const REASONS_MAX: usize = 20;

/// The summary of a matrix for `screen`, with a line feed at its end. `directory` holds its files.
pub fn summary(matrix: &Matrix, directory: Option<&str>, screen: Screen) -> String {
    let mut document = Document::new(screen);
    document.title(&matrix.title, &facts(matrix));
    document.verdict(verdict_word(matrix.verdict), []);
    let hidden = hidden(matrix).into_iter().flat_map(|hidden| wrap(&hidden, "  ", screen.width));
    document.section(titled(&tables::brief(matrix, screen.width), screen).into_iter().chain(hidden));
    tables::service(matrix).iter().for_each(|table| document.table(table));
    document.bullets(&reasons(matrix));
    if let Some(directory) = directory {
        document.ending(&format!("{directory}/matrix.html"), &next(matrix, directory));
    }
    document.finish()
}

/// The command that shows the first run, or the scenario if no run is done.
fn next(matrix: &Matrix, directory: &str) -> String {
    match matrix.runs.iter().find(|run| run.state == State::Done) {
        Some(run) => format!("plimsoll show {directory}/{}", run.directory),
        None => format!("plimsoll run {directory}/scenario.yaml --list"),
    }
}

/// A run of a matrix in one line.
pub fn brief(run: &Run) -> String {
    let operation = |(name, operation): (&String, &plimsoll_measure::run::Operation)| {
        let p99 = named_percentile(Quantile::P99, &operation.response_ns, sent_in(run).many);
        format!("{name} {} {}, {p99}", exact_rate(operation.documents_per_s), counted_in(run).1)
    };
    let mut parts: Vec<_> = run.operations.iter().map(operation).collect();
    parts.extend(run.integrity.as_ref().map(kept));
    parts.push(verdict_word(run.verdict).0.to_owned());
    parts.join("; ")
}

/// The unit of rates.
fn rate(matrix: &Matrix) -> &'static str {
    if matrix.counts_requests() { "requests/s" } else { "documents/s" }
}

/// The integrity of one run in a few words.
fn kept(integrity: &Integrity) -> String {
    match integrity.proof {
        Proof::FireAndForget => "nothing was promised".to_owned(),
        Proof::NotAudited => "not audited".to_owned(),
        _ => format!("{} of {} lost", exact(integrity.lost), exact(integrity.acknowledged)),
    }
}

/// The facts that identify a matrix.
fn facts(matrix: &Matrix) -> Vec<String> {
    let made = matrix.runs.iter().filter(|run| run.state == State::Done).count();
    let mut facts = vec![
        matrix.name.clone(),
        matrix.started.clone(),
        format!("{made} of {} runs", matrix.runs.len()),
        crate::tables::server_in_words(&matrix.server),
    ];
    let same = matrix.axes.iter().filter(|axis| axis.values.len() == 1);
    facts.extend(same.map(|axis| format!("{} {}", axis.name, axis.values[0])));
    facts
}

/// Reasons and notes of cells, each with its cells.
fn reasons(matrix: &Matrix) -> Vec<String> {
    let mut known: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in &matrix.cells {
        for reason in cell.reasons.iter().chain(&cell.notes) {
            match known.iter_mut().find(|(other, _)| other == reason) {
                Some((_, cells)) => cells.push(label(matrix, cell)),
                None => known.push((reason, vec![label(matrix, cell)])),
            }
        }
    }
    let more = known.len().saturating_sub(REASONS_MAX);
    let found =
        known.iter().take(REASONS_MAX).map(|(reason, cells)| format!("{reason}: {}", cells.join("; ")));
    let mut reasons: Vec<_> = found.collect();
    reasons.extend((more > 0).then(|| format!("and {more} more, in matrix.json")));
    let missing = matrix.cells.iter().filter(|cell| cell.figures.is_none()).count();
    reasons.extend(
        (missing > 0).then(|| format!("{missing} of {} cells were not measured", matrix.cells.len())),
    );
    reasons
}

/// The operations that the scenario excludes from tables and charts.
fn hidden(matrix: &Matrix) -> Option<String> {
    let shown = matrix.operations();
    let all =
        matrix.cells.iter().filter_map(|cell| cell.figures.as_ref()).flat_map(|it| it.operations.keys());
    let hidden: BTreeSet<&str> = all.map(String::as_str).filter(|name| !shown.contains(name)).collect();
    let names: Vec<_> = hidden.into_iter().collect();
    (!names.is_empty()).then(|| format!("Only in matrix.json: {}", names.join(", ")))
}

/// Names of the axes with more than one value, in order.
fn varying(matrix: &Matrix) -> Vec<&str> {
    matrix.axes.iter().filter(|axis| axis.values.len() > 1).map(|axis| axis.name.as_str()).collect()
}

/// The values that distinguish a cell; a bare number has the name of its axis.
fn label(matrix: &Matrix, cell: &Cell) -> String {
    let axes = matrix.axes.iter().filter(|axis| axis.values.len() > 1);
    let value = |axis: &plimsoll_measure::matrix::Axis| Some(axis.words(cell.values.get(&axis.name)?));
    let values: Vec<_> = axes.filter_map(value).collect();
    if values.is_empty() { format!("cell {}", cell.number) } else { values.join(", ") }
}

#[cfg(test)]
mod tests;
