//! Tabulates the metrics of a history: a line for each change.

use plimsoll_measure::comparison::Verdict;
use plimsoll_measure::history::{Change, History, Track};

use super::sentences::started;
use crate::comparison::{change, p, short, value};
use crate::tables::{Cell, Table, Tone, left, right};
use crate::units::{NONE, or_dash};

/// Every metric with its changes, the oldest first.
pub(super) fn changes(history: &History) -> Table {
    let figures = [left("metric"), right("runs"), right("level now")];
    let each = [left("changed with the run of"), right("change"), right("p"), left("verdict")];
    Table {
        title: "Where the level changed; the first metric is the primary one".to_owned(),
        columns: figures.into_iter().chain(each).collect(),
        rows: history.metrics.iter().flat_map(|metric| rows(metric, history)).collect(),
        flexible: 0,
    }
}

/// The lines of a metric; only the first names it.
fn rows(metric: &Track, history: &History) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = metric.changes.iter().map(|it| changed(it, history)).collect();
    if rows.is_empty() {
        rows.push(unchanged(metric));
    }
    let level = or_dash(metric.level, |level| value(metric.unit, level));
    let mut figures: Vec<Cell> =
        vec![short(&metric.words).into(), metric.known.to_string().into(), level.into()];
    for row in &mut rows {
        let blank = vec![Cell::default(); figures.len()];
        row.splice(0..0, std::mem::replace(&mut figures, blank));
    }
    rows
}

fn changed(it: &Change, history: &History) -> Vec<Cell> {
    let verdict = match it.verdict {
        Verdict::Better => Cell::toned("better", Tone::Good),
        _ => Cell::toned("worse", Tone::Bad),
    };
    vec![started(history, it.after).into(), change(it.ratio - 1.0).into(), p(it.p).into(), verdict]
}

fn unchanged(metric: &Track) -> Vec<Cell> {
    let said = match metric.needed {
        Some(_) => Cell::toned("too few runs", Tone::Faint),
        None => "none shown".into(),
    };
    vec![NONE.into(), NONE.into(), NONE.into(), said]
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

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
