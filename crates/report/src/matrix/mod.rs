//! What a matrix of runs says, for a terminal and as a page.

mod page;
mod panels;
mod tables;

pub use page::page;

use plimsoll_measure::integrity::{Integrity, Proof};
use plimsoll_measure::matrix::{Cell, Matrix, State};
use plimsoll_measure::run::Run;

use crate::tables::Tone;
use crate::text::{Style, lines, paint, verdict_word, wrap};
use crate::units::{exact, exact_rate, percentile};

/// Columns of the summary at most.
const WIDTH: usize = 100;
/// Reasons that are listed.
const REASONS_MAX: usize = 20;

/// The summary of a matrix, at most 100 columns wide, with a line feed at its end; `directory` is where its files are.
pub fn summary(matrix: &Matrix, directory: Option<&str>, style: Style) -> String {
    let title = wrap(&matrix.title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    let facts = wrap(&facts(matrix).join(" · "), "", WIDTH);
    let (word, tone) = verdict_word(matrix.verdict);
    let mut sections = vec![title.chain(facts).collect(), vec![paint(word, tone, style)]];
    let table = tables::brief(matrix);
    let heading = wrap(&table.title, "", WIDTH).into_iter().map(|line| paint(&line, Tone::Strong, style));
    sections.push(heading.chain(lines(&table, WIDTH, style)).collect());
    sections.push(reasons(matrix).iter().flat_map(|reason| wrap(reason, "  • ", WIDTH)).collect());
    sections.extend(
        directory.map(|directory| vec![format!("Everything is in {directory}; look at matrix.html")]),
    );
    sections.retain(|section: &Vec<String>| !section.is_empty());
    let text: Vec<_> = sections.iter().map(|section| section.join("\n")).collect();
    text.join("\n\n") + "\n"
}

/// A run of a matrix in one line.
pub fn brief(run: &Run) -> String {
    let operation = |(name, operation): (&String, &plimsoll_measure::run::Operation)| {
        let p99 = percentile(operation.response_ns.p99, &operation.response_ns);
        format!("{name} {} documents/s, p99 {p99}", exact_rate(operation.documents_per_s))
    };
    let mut parts: Vec<_> = run.operations.iter().map(operation).collect();
    parts.extend(run.integrity.as_ref().map(kept));
    parts.push(verdict_word(run.verdict).0.to_owned());
    parts.join("; ")
}

/// What became of the promises of one run, in a few words.
fn kept(integrity: &Integrity) -> String {
    match integrity.proof {
        Proof::FireAndForget => "nothing was promised".to_owned(),
        Proof::NotAudited => "not audited".to_owned(),
        _ => format!("{} of {} lost", exact(integrity.lost), exact(integrity.acknowledged)),
    }
}

/// Which matrix this is.
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

/// What speaks against cells or should be known of them, each with the cells that it is about.
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
    let told =
        known.iter().take(REASONS_MAX).map(|(reason, cells)| format!("{reason}: {}", cells.join("; ")));
    let mut reasons: Vec<_> = told.collect();
    reasons.extend((more > 0).then(|| format!("and {more} more, in matrix.json")));
    let missing = matrix.cells.iter().filter(|cell| cell.figures.is_none()).count();
    reasons.extend(
        (missing > 0).then(|| format!("{missing} of {} cells were not measured", matrix.cells.len())),
    );
    reasons
}

/// Names of the axes with more than one value, in order.
fn varying(matrix: &Matrix) -> Vec<&str> {
    matrix.axes.iter().filter(|axis| axis.values.len() > 1).map(|axis| axis.name.as_str()).collect()
}

/// What tells a cell from the others; a bare number with the name of its axis.
fn label(matrix: &Matrix, cell: &Cell) -> String {
    let axes = matrix.axes.iter().filter(|axis| axis.values.len() > 1);
    let value = |axis: &plimsoll_measure::matrix::Axis| Some(axis.words(cell.values.get(&axis.name)?));
    let values: Vec<_> = axes.filter_map(value).collect();
    if values.is_empty() { format!("cell {}", cell.number) } else { values.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::environment::{ServerFacts, ServerKind};
    use plimsoll_measure::matrix::{Axis, CellRun, Figures, LeftOut};
    use plimsoll_measure::run::{Operation, Verdict};

    use super::*;

    fn run(documents_per_s: f64, lost: u64) -> Run {
        let response_ns = plimsoll_measure::histogram::Latency {
            count: 100,
            p50: Some((1e9 / documents_per_s) as u64),
            max: Some((9e9 / documents_per_s) as u64),
            ..Default::default()
        };
        let operation = Operation {
            count: 100,
            documents: 1000,
            documents_per_s,
            rate_per_s: documents_per_s / 10.0,
            response_ns,
            ..Operation::default()
        };
        let integrity = Integrity { acknowledged: 1000, found: 1000 - lost, lost, ..Integrity::default() };
        Run {
            operations: BTreeMap::from([("insert".to_owned(), operation)]),
            integrity: Some(integrity),
            verdict: if lost > 0 { Verdict::Fail } else { Verdict::Pass },
            ..Run::default()
        }
    }

    /// Two strategies by two sizes by one concern, twice each; the last cell lost documents, and one was not made.
    pub(super) fn sample() -> Matrix {
        let axis = |name: &str, values: &[&str]| Axis {
            name: name.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let axes = vec![
            axis("strategy", &["one-by-one", "partitioned"]),
            axis("size", &["10K", "1M"]),
            axis("w", &["1"]),
        ];
        let cell = |number: u32, strategy: &str, size: &str, rates: &[f64], lost: u64| Cell {
            number,
            values: [("strategy", strategy), ("size", size), ("w", "1")]
                .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
                .into(),
            verdict: (!rates.is_empty()).then_some(if lost > 0 { Verdict::Fail } else { Verdict::Pass }),
            reasons: if lost > 0 {
                vec!["the integrity of the documents is violated".into()]
            } else {
                Vec::new()
            },
            notes: Vec::new(),
            figures: Figures::of(&rates.iter().map(|rate| (run(*rate, lost), None)).collect::<Vec<_>>()),
        };
        let done = |cell: u32| CellRun {
            number: cell,
            cell,
            directory: format!("{cell:03}-x"),
            state: if cell == 2 { State::Planned } else { State::Done },
            ..CellRun::default()
        };
        Matrix {
            name: "strategies".into(),
            title: "customer records, by strategy".into(),
            started: "2026-11-21T12:00:00Z".into(),
            verdict: Verdict::Fail,
            server: ServerFacts {
                kind: ServerKind::Embedded,
                version: Some("7.0".into()),
                ..ServerFacts::default()
            },
            axes,
            repetitions: 2,
            left_out: vec![LeftOut {
                when: BTreeMap::from([("size".into(), vec!["1M".into()])]),
                because: "it takes <too> long".into(),
                cells: 1,
            }],
            cells: vec![
                cell(1, "one-by-one", "10K", &[5_000.0, 5_400.0], 0),
                cell(2, "one-by-one", "1M", &[], 0),
                cell(3, "partitioned", "10K", &[80_000.0, 100_000.0], 0),
                cell(4, "partitioned", "1M", &[90_000.0], 3),
            ],
            runs: (1..=4).map(done).collect(),
            ..Matrix::default()
        }
    }

    #[test]
    fn a_matrix_is_summed_up_in_one_table() {
        let found = summary(&sample(), Some("plimsoll-runs/m"), Style::Plain);
        let expected = "
customer records, by strategy
strategies · 2026-11-21T12:00:00Z · 3 of 4 runs · embedded server 7.0 · w 1

FAIL

Documents per second: median of 2 runs, lowest to highest, and as a share of the best cell that
differs in strategy alone
  strategy     size  documents/s      lowest to highest  of best      p50          p99  integrity
  one-by-one   10K         5,000         5,000 to 5,400   6.2 %  185 µs  n too small  0 lost
  one-by-one   1M              –                      –       –       –            –  not measured
  partitioned  10K        80,000      80,000 to 100,000    100 %  10.0 µs  n too small  0 lost
  partitioned  1M         90,000       90,000 to 90,000       –  11.1 µs  n too small  3 lost

  • the integrity of the documents is violated: partitioned, 1M
  • 1 of 4 cells were not measured

Everything is in plimsoll-runs/m; look at matrix.html
";
        let bare = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(bare(&found), bare(expected.trim_start()), "{found}");
        assert!(found.lines().all(|line| line.chars().count() <= WIDTH), "{found}");
    }

    #[test]
    fn a_run_is_told_in_one_line() {
        assert_eq!(
            brief(&run(5_000.0, 3)),
            "insert 5,000 documents/s, p99 n too small; 3 of 1,000 lost; FAIL"
        );
    }

    #[test]
    fn the_page_holds_the_chart_the_table_and_what_was_left_out() {
        let html = page(&sample());
        for words in [
            "Documents per second",
            "partitioned",
            "it takes &lt;too&gt; long",
            "3 lost",
            "001-x/report.html",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("<too>") && !html.contains("<script") && !html.contains("http"));
        assert_eq!(html.matches("<figure").count(), 1);
        assert_eq!(html, page(&sample()), "the same matrix gives the same page");
    }

    #[test]
    fn a_matrix_of_which_nothing_is_known_still_has_a_page_and_a_summary() {
        assert!(page(&Matrix::default()).contains("INVALID"));
        assert!(summary(&Matrix::default(), None, Style::Plain).contains("INVALID"));
    }
}
