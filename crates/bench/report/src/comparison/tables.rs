//! Tabulates the metrics of a comparison.

use plimsoll_measure::comparison::{Comparison, Difference, Metric, Verdict};

use super::numbers::{change, p, value};
use super::sentences::pairs_needed;
use crate::tables::{Cell, Column, Table, Tone, left, right};
use crate::units::{NONE, or_dash};

/// The columns for a terminal.
pub(super) fn brief(comparison: &Comparison) -> Table {
    let columns = vec![left("metric"), right("A"), right("B"), right("change")];
    let judged = vec![right("interval"), right("p"), left("verdict"), right("pairs")];
    let row = |metric: &Metric| {
        let mut row = figures(metric);
        if comparison.pairs() > 1 {
            let needed = pairs_needed(metric).into();
            row.extend([interval(metric), probability(metric.p_adjusted), verdict(metric), needed]);
        } else {
            row.push(verdict(metric));
        }
        row
    };
    let columns = if comparison.pairs() > 1 {
        [columns, judged].concat()
    } else {
        [columns, vec![left("verdict")]].concat()
    };
    let rows = comparison.metrics.iter().map(row).collect();
    Table { title: title(comparison), columns, rows, ..Table::default() }
}

/// All columns of the metrics, for a page.
pub(super) fn full(comparison: &Comparison) -> Table {
    let names = ["A", "B", "change", "interval", "p", "adjusted p", "threshold", "pairs"];
    let columns = [vec![left("metric")], names.map(right).into(), vec![left("verdict")]].concat();
    let row = |metric: &Metric| {
        let least = or_dash(metric.must_show, |share| change(share).replace('+', "± "));
        let mut row = figures(metric);
        row.extend([
            interval(metric),
            probability(metric.p),
            probability(metric.p_adjusted),
            least.into(),
            pairs_needed(metric).into(),
            verdict(metric),
        ]);
        row
    };
    Table {
        title: title(comparison),
        columns,
        rows: comparison.metrics.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The differences between A and B.
pub(super) fn differences(comparison: &Comparison) -> Table {
    let word = |text: &Option<String>| -> Cell {
        text.clone().map_or_else(|| Cell::toned("nothing", Tone::Faint), Cell::from)
    };
    let row = |it: &Difference| vec![it.path.clone().into(), word(&it.a), word(&it.b)];
    let columns: Vec<Column> = vec![left("key"), left("A"), left("B")];
    let rows = comparison.differences.iter().map(row).collect();
    Table { title: "Differences, except the time".to_owned(), columns, rows, ..Table::default() }
}

fn title(comparison: &Comparison) -> String {
    match comparison.pairs() {
        1 => "B against A, one run each: ratios and no verdict".to_owned(),
        pairs => {
            format!("B against A: geometric means of {pairs} runs each; the first metric is the primary one")
        }
    }
}

fn figures(metric: &Metric) -> Vec<Cell> {
    let mean = |mean: Option<f64>| or_dash(mean, |mean| value(metric.unit, mean));
    let moved = or_dash(metric.change(), change);
    vec![short(&metric.words).into(), mean(metric.a).into(), mean(metric.b).into(), moved.into()]
}

/// The short name of a metric.
pub(crate) fn short(words: &str) -> String {
    let units = [(" per second", "/s"), (" per operation", "/operation"), (" per document", "/document")];
    let words = words.replace("the server's", "server's").replace("written by the server", "server's writes");
    units.iter().fold(words, |words, (long, short)| words.replace(long, short))
}

fn interval(metric: &Metric) -> Cell {
    let ends = metric.low.zip(metric.high);
    ends.map_or_else(
        || NONE.to_owned(),
        |(low, high)| format!("{} to {}", change(low - 1.0), change(high - 1.0)),
    )
    .into()
}

fn probability(value: Option<f64>) -> Cell {
    or_dash(value, p).into()
}

/// A verdict in a word or two.
pub(super) fn verdict(metric: &Metric) -> Cell {
    match metric.verdict {
        Verdict::Better => Cell::toned("better", Tone::Good),
        Verdict::Worse => Cell::toned("worse", Tone::Bad),
        Verdict::NoDifference => "none shown".into(),
        Verdict::TooNoisy => Cell::toned("too noisy", Tone::Doubtful),
        Verdict::NoVerdict => Cell::toned("no verdict", Tone::Faint),
    }
}
