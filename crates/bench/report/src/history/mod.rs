//! Renders a history for a terminal.

use plimsoll_measure::comparison::Verdict;
use plimsoll_measure::history::{History, Track};

use crate::comparison::{change, p, short, value};
use crate::layout::{Document, Screen};
use crate::tables::{Cell, Table, Tone};
use crate::units::{counted, or_dash};
use sentences::started;

mod sentences;

pub use sentences::conclusions;

/// The summary of a history for `screen`, with a line feed at its end. The conclusions shown are those stored in
/// the history: see [`conclusions`].
pub fn summary(history: &History, screen: Screen) -> String {
    let mut document = Document::new(screen);
    document.title(&history.title, &[facts(history)]);
    document.verdict(headline(history), []);
    document.table(&changes(history));
    document.bullets(&history.conclusions);
    document.finish()
}

/// The number of runs, and the time that they span.
fn facts(history: &History) -> String {
    let runs = counted(history.runs.len() as u64, "run");
    match (history.runs.first(), history.runs.last()) {
        (Some(first), Some(last)) => {
            format!("{runs} · {} to {}", sentences::moment(&first.started), sentences::moment(&last.started))
        }
        _ => runs,
    }
}

/// The newest change of the primary metric as a headline.
fn headline(history: &History) -> (&'static str, Tone) {
    match history.primary().and_then(Track::newest).map(|change| change.verdict) {
        Some(Verdict::Worse) => ("THE NEWEST CHANGE IS FOR THE WORSE", Tone::Bad),
        Some(_) => ("THE NEWEST CHANGE IS FOR THE BETTER", Tone::Good),
        None if history.is_failed() => ("TOO FEW RUNS TO TELL", Tone::Doubtful),
        None => ("NO CHANGE SHOWN", Tone::Strong),
    }
}

/// Every metric with its changes, the oldest first. Only the first line of a metric has its name and level.
fn changes(history: &History) -> Table {
    let lines = |metric: &'_ Track| metric.changes.len().max(1);
    let rows = history.metrics.iter();
    let rows =
        rows.flat_map(|metric| (0..lines(metric)).map(move |line| (metric, line, metric.changes.get(line))));
    let first = |line: usize, text: String| if line == 0 { text } else { String::new() };
    Table::of("Where the level changed; the first metric is the primary one", rows)
        .left("metric", |(metric, line, _)| first(line, short(&metric.words)))
        .right("runs", |(metric, line, _)| first(line, metric.known.to_string()))
        .right("level now", |(metric, line, _)| {
            first(line, or_dash(metric.level, |level| value(metric.unit, level)))
        })
        .left("changed with the run of", |(.., it)| or_dash(it, |it| started(history, it.after)))
        .right("change", |(.., it)| or_dash(it, |it| change(it.ratio - 1.0)))
        .right("p", |(.., it)| or_dash(it, |it| p(it.p)))
        .left("verdict", |(metric, _, it)| match it.map(|it| it.verdict) {
            Some(Verdict::Better) => Cell::toned("better", Tone::Good),
            Some(_) => Cell::toned("worse", Tone::Bad),
            None if metric.needed.is_some() => Cell::toned("too few runs", Tone::Faint),
            None => "none shown".into(),
        })
        .table()
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_measure::comparison::Subject;
    use plimsoll_measure::environment::ServerFacts;
    use plimsoll_measure::history::{Request, Settings, follow};
    use plimsoll_measure::run::{Client, Operation, Run, ScenarioFacts, Verdict as Worth};

    use super::*;
    use crate::layout::tests::assert_fits;

    /// A day, in milliseconds.
    const DAY_MS: u64 = 86_400_000;

    fn run(day: usize, rate: f64, version: &str) -> Run {
        let rate = rate * (1.0 + 0.005 * ((day * 7 % 5) as f64 - 2.0));
        let operation =
            Operation { count: 1_000, documents: 1_000, documents_per_s: rate, ..Operation::default() };
        Run {
            id: format!("{day}"),
            command: "run".into(),
            started_ms: 1_774_137_600_000 + day as u64 * DAY_MS,
            verdict: Worth::Pass,
            scenario: ScenarioFacts { title: "single <inserts>".into(), ..ScenarioFacts::default() },
            server: ServerFacts { version: Some(version.into()), ..ServerFacts::default() },
            operations: [("insert".to_owned(), operation)].into(),
            client: Client { cpu_us_per_operation: Some(5.0), ..Client::default() },
            ..Run::default()
        }
    }

    /// One run a day at these rates, each rate with that number of runs. After the first rate the server has
    /// a newer version.
    pub(crate) fn sample(levels: &[(f64, usize)]) -> History {
        let first = levels.first().map_or(0, |(_, runs)| *runs);
        let version = |day| if day < first { "8.0" } else { "8.1" };
        let rates = levels.iter().flat_map(|(rate, runs)| std::iter::repeat_n(*rate, *runs));
        let runs: Vec<Run> = rates.enumerate().map(|(day, rate)| run(day, rate, version(day))).collect();
        let subject = |(day, run)| Subject { name: format!("runs/{day:03}"), run, scenario: None };
        let request = Request {
            runs: runs.iter().enumerate().map(subject).collect(),
            metric: None,
            force: false,
            settings: Settings::default(),
        };
        let mut history = follow(request).unwrap();
        history.conclusions = conclusions(&history);
        history
    }

    #[test]
    fn a_history_is_summed_up() {
        let found = summary(&sample(&[(5_000.0, 12), (4_500.0, 10)]), Screen::PIPE);
        for part in [
            "single <inserts>",
            "22 runs · 2026-03-22 00:00 to 2026-04-12 00:00",
            "THE NEWEST CHANGE IS FOR THE WORSE",
            "documents/s of insert",
            "2026-04-03 00:00",
            "worse",
            "none shown",
            "  • Worse: ",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert_fits(|screen| summary(&sample(&[(5_000.0, 12), (4_500.0, 10)]), screen));
    }

    #[test]
    fn every_history_has_a_headline() {
        for (levels, expected) in [
            (&[(5_000.0, 12), (6_000.0, 10)][..], "THE NEWEST CHANGE IS FOR THE BETTER"),
            (&[(5_000.0, 20)], "NO CHANGE SHOWN"),
            (&[(5_000.0, 9)], "TOO FEW RUNS TO TELL"),
        ] {
            let text = summary(&sample(levels), Screen::PIPE);
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn each_change_has_a_line_and_each_metric_is_named_once() {
        let table = changes(&sample(&[(5_000.0, 12), (4_000.0, 12), (5_000.0, 12)]));
        let text: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(text[0][..2], ["documents/s of insert", "36"]);
        assert_eq!((text[0][3], text[0][6]), ("2026-04-03 00:00", "worse"));
        assert_eq!(text[1][..3], ["", "", ""]);
        assert_eq!((text[1][3], text[1][6]), ("2026-04-15 00:00", "better"));
        assert_eq!(text[2][6], "none shown");
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
}
