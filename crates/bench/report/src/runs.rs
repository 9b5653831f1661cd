//! Renders a list of runs for a terminal.

use plimsoll_measure::run::{Run, Verdict};
use serde::Serialize;

use crate::layout::{Document, Screen};
use crate::tables::{Cell, Table, Tone, verdict_word};
use crate::units::{bytes, counted, counted_in, exact_rate, or_dash};

/// The number of characters of an RFC 3339 time up to its minute.
const MINUTE: usize = 16;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// The directory.
    pub directory: String,
    /// The start in UTC, as in RFC 3339.
    pub started: String,
    /// The scenario.
    pub scenario: String,
    /// The user's label.
    pub label: Option<String>,
    /// The progress of the run.
    pub state: State,
    /// The verdict of a run that ended.
    pub verdict: Option<Verdict>,
    /// The main figure.
    pub figure: Option<Figure>,
    /// The bytes on disk.
    pub bytes: u64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It ended.
    Ended,
    /// It was killed.
    Cut,
    /// It runs now.
    Running,
}

/// A rate with its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The rate per second.
    pub rate: f64,
    /// The unit, such as `documents/s`.
    pub unit: String,
}

/// The main figure of a run: its load line, the highest throughput of its ladder, or the rate of its busiest operation.
pub fn figure(run: &Run) -> Option<Figure> {
    if let Some(line) = &run.line {
        return line.rate.map(|rate| Figure { rate, unit: line.unit.clone() });
    }
    if let Some(ladder) = &run.ladder {
        let highest = ladder.rungs.iter().map(|rung| rung.throughput).max_by(f64::total_cmp);
        return highest.map(|rate| Figure { rate, unit: ladder.unit.clone() });
    }
    let rates = run.operations.values().map(|operation| operation.documents_per_s);
    rates.max_by(f64::total_cmp).map(|rate| Figure { rate, unit: counted_in(run).1.to_owned() })
}

/// The runs in a table, with their sum.
pub fn summary(runs: &[Listed], screen: Screen) -> String {
    let mut document = Document::new(screen);
    let total = bytes(runs.iter().map(|run| run.bytes).sum());
    let table = Table::of(format!("{}, {total}", counted(runs.len() as u64, "run")), runs)
        .left("run", |it| Cell::strong(&it.directory))
        .right("started", |it| it.started.chars().take(MINUTE).collect::<String>().replace('T', " "))
        .left("verdict", verdict)
        .right("rate", |it| {
            or_dash(it.figure.as_ref(), |figure| format!("{} {}", exact_rate(figure.rate), figure.unit))
        })
        .right("size", |it| bytes(it.bytes))
        .left("label", |it| it.label.clone().unwrap_or_default())
        .wrapped();
    document.table(&table.table());
    document.finish()
}

fn verdict(run: &Listed) -> Cell {
    match (run.state, run.verdict) {
        (State::Running, _) => Cell::toned("running", Tone::Faint),
        (State::Ended, Some(verdict)) => {
            let (word, tone) = verdict_word(verdict);
            Cell::toned(word, tone)
        }
        _ => Cell::toned("cut", Tone::Doubtful),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::line::Line;
    use plimsoll_measure::run::Operation;

    use super::*;
    use crate::layout::Width;

    fn listed(directory: &str, state: State, verdict: Option<Verdict>) -> Listed {
        Listed {
            directory: directory.into(),
            started: "2026-03-22T16:36:59Z".into(),
            scenario: "bulk".into(),
            label: (state == State::Ended).then(|| "before the upgrade of the server".into()),
            state,
            verdict,
            figure: Some(Figure { rate: 123_456.7, unit: "documents/s".into() }),
            bytes: 3 << 20,
        }
    }

    #[test]
    fn runs_are_listed_with_their_verdict_rate_size_and_label() {
        let runs = [
            listed("plimsoll-runs/b", State::Ended, Some(Verdict::Pass)),
            listed("plimsoll-runs/a", State::Cut, None),
        ];
        let lines = [
            "2 runs, 6.00 MiB",
            "  run                       started  verdict                 rate      size  label",
            "  plimsoll-runs/b  2026-03-22 16:36  PASS     123,457 documents/s  3.00 MiB  before the upgrade of",
            &format!("{}the server", " ".repeat(77)),
            "  plimsoll-runs/a  2026-03-22 16:36  cut      123,457 documents/s  3.00 MiB",
        ];
        assert_eq!(summary(&runs, Screen::PIPE), lines.join("\n") + "\n");
        for width in [60, 80, 100, 140] {
            let text = summary(&runs, Screen { width: Width(width), ..Screen::PIPE });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("2026-03-22 16:36") && text.contains("123,457 documents/s"), "{text}");
        }
    }

    #[test]
    fn the_main_figure_is_the_load_line_or_the_busiest_operation() {
        let operation = |documents_per_s| Operation { documents_per_s, ..Operation::default() };
        let operations = [("a".to_owned(), operation(5.0)), ("b".to_owned(), operation(7.0))].into();
        let run = Run { operations, ..Run::default() };
        assert_eq!(figure(&run), Some(Figure { rate: 7.0, unit: "documents/s".into() }));
        let line = Line { rate: Some(3.0), unit: "operations/s".into(), ..Line::default() };
        let searched = Run { line: Some(line), ..run };
        assert_eq!(figure(&searched), Some(Figure { rate: 3.0, unit: "operations/s".into() }));
        assert_eq!(figure(&Run::default()), None);
    }
}
