//! Tabulates a result of another tool.

use plimsoll_measure::histogram::supported;

use super::distribution::Distribution;
use super::value::{Check, Foreign, Metric, Of, Operation, Since, Threshold, Times, Unit, Values};
use crate::layout::cut;
use crate::prose::plain;
use crate::tables::{Cell, Table, Tone, left, right};
use crate::units::{NONE, bytes, exact, exact_rate, latency, or_dash, percent, three_digits};

/// Percentiles that have a column where a result has them.
const SHOWN: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
/// The most percentile columns.
const SHOWN_MAX: usize = 5;
/// Percentiles of other metrics, in a line of text.
const BESIDE: [f64; 3] = [50.0, 95.0, 99.0];
/// The longest name in a column, in characters.
const NAME_MAX: usize = 44;
/// The most other metrics shown.
const METRICS_MAX: usize = 60;
/// The most classes of errors shown.
const ERRORS_MAX: usize = 20;
/// Marks a percentile that too few values support.
const FEW: &str = " ?";
/// The meaning of the mark.
pub(super) const FEW_IN_WORDS: &str = "a question mark stands behind percentiles beyond which lie fewer than ten values: they are a matter of chance";

fn name(text: &str) -> Cell {
    Cell::toned(cut(&plain(text), NAME_MAX), Tone::Strong)
}

/// A name that has the whole one above it: without the beginning of an address, or only its tags.
fn short(text: &str) -> Cell {
    let address = text.split_once("://").and_then(|(before, rest)| Some((before, rest.split_once('/')?.1)));
    let without = address.map(|(before, path)| {
        let method = before.rsplit_once(' ').map(|(method, _)| format!("{method} ")).unwrap_or_default();
        format!("{method}/{path}")
    });
    let tags = text.find(" {").map(|at| text[at + 1..].to_owned());
    name(&without.or(tags).unwrap_or_else(|| text.to_owned()))
}

fn time(ns: f64) -> String {
    latency(ns.round().max(0.0) as u64)
}

/// The counts of all and of failed operations.
pub(super) fn operations(foreign: &Foreign) -> Table {
    let row = |it: &Operation| {
        let share =
            |failed: u64| it.count.filter(|count| *count > 0).map(|count| failed as f64 / count as f64);
        vec![
            name(&it.name),
            or_dash(it.count, exact).into(),
            or_dash(it.rate_per_s, exact_rate).into(),
            it.failed.map_or_else(|| NONE.into(), Cell::fault),
            or_dash(it.failed.and_then(share), percent).into(),
        ]
    };
    let columns =
        vec![left("operation"), right("count"), right("per second"), right("failed"), right("share")];
    let rows = foreign.operations.iter().map(row).collect();
    Table { title: "Operations".to_owned(), columns, rows, flexible: 0 }
}

/// Latencies that count from the same moment.
pub(super) fn times(foreign: &Foreign, since: Since) -> Table {
    let of_operation =
        |it: &'_ Operation| it.times.iter().filter(|times| times.since == since).cloned().collect();
    let all: Vec<(&Operation, Vec<Times>)> =
        foreign.operations.iter().map(|it| (it, of_operation(it))).collect();
    let each = || all.iter().flat_map(|(operation, times)| times.iter().map(move |it| (*operation, it)));
    let shown = columns(each().map(|(_, it)| &it.ns));
    let row = |(operation, times): (&Operation, &Times)| {
        let ns = &times.ns;
        let percentiles = shown.iter().map(|at| percentile(ns, *at));
        [short(&operation.name), of(times.of).into(), or_dash(ns.mean, time).into()]
            .into_iter()
            .chain(percentiles)
            .chain([or_dash(ns.max, time).into()])
            .collect()
    };
    let percentiles = shown.iter().map(|at| right(format!("p{at}")));
    let columns =
        [left("operation"), left("of"), right("mean")].into_iter().chain(percentiles).chain([right("max")]);
    Table {
        title: title(since).to_owned(),
        columns: columns.collect(),
        rows: each().map(row).collect(),
        flexible: 0,
    }
}

const fn title(since: Since) -> &'static str {
    match since {
        Since::Due => "Response time, counted from when an operation was due",
        Since::Sent => "Service time, counted from when it was sent: coordinated omission is possible",
        Since::Unknown => "Times of which the file does not say from when they count",
    }
}

const fn of(of: Of) -> &'static str {
    match of {
        Of::All => "all",
        Of::Successes => "successes",
        Of::Failures => "failures",
    }
}

/// The percentiles to show: those above the 99th only where one is supported, and of too many the ones in the middle give
/// way.
fn columns<'a>(distributions: impl Iterator<Item = &'a Distribution> + Clone) -> Vec<f64> {
    let has =
        |at: &f64| distributions.clone().any(|it| it.at(*at).is_some() && (*at <= 99.0 || !is_few(it, *at)));
    let mut shown: Vec<f64> = SHOWN.into_iter().filter(has).collect();
    for least in [75.0, 90.0] {
        if shown.len() > SHOWN_MAX {
            shown.retain(|at| *at != least);
        }
    }
    shown
}

fn percentile(ns: &Distribution, at: f64) -> Cell {
    match ns.at(at) {
        None => NONE.into(),
        Some(value) if is_few(ns, at) => Cell::toned(time(value) + FEW, Tone::Doubtful),
        Some(value) => time(value).into(),
    }
}

fn is_few(ns: &Distribution, at: f64) -> bool {
    ns.count.is_some_and(|count| !supported(count, at))
}

/// Whether a percentile is shown that too few values support.
pub(super) fn has_few(foreign: &Foreign) -> bool {
    let all = foreign.operations.iter().flat_map(|it| &it.times);
    all.map(|it| &it.ns).any(|ns| SHOWN.iter().any(|at| ns.at(*at).is_some() && is_few(ns, *at)))
}

/// Failures by class.
pub(super) fn errors(foreign: &Foreign) -> Table {
    let each = foreign.operations.iter().flat_map(|it| it.errors.iter().map(move |error| (&it.name, error)));
    let row = |(operation, (class, count)): (&String, (&String, &u64))| {
        vec![name(operation), cut(&plain(class), NAME_MAX).into(), Cell::fault(*count)]
    };
    let rows = each.map(row).take(ERRORS_MAX).collect();
    let columns = vec![left("operation"), left("class"), right("count")];
    Table { title: "Errors".to_owned(), columns, rows, flexible: 1 }
}

/// How operations spread over the full seconds: the first and the last are none.
pub(super) fn seconds(foreign: &Foreign) -> Table {
    let full = foreign.seconds.get(1..foreign.seconds.len().saturating_sub(1)).unwrap_or_default();
    let row = |it: &Operation| {
        let mut lines: Vec<_> = full.iter().filter_map(|second| second.operations.get(&it.name)).collect();
        lines.sort_by_key(|line| line.count);
        let slowest = lines.iter().map(|line| line.max_ns).max()?;
        // A second without an operation has no line, and is the worst of all.
        let least = if lines.len() < full.len() { 0 } else { lines.first()?.count };
        Some(vec![
            name(&it.name),
            exact(full.len() as u64).into(),
            exact(least).into(),
            exact(lines[lines.len() / 2].count).into(),
            exact(lines.last()?.count).into(),
            latency(slowest).into(),
        ])
    };
    let columns = ["full seconds", "fewest", "median", "most", "longest time"].map(right);
    let columns = std::iter::once(left("operation")).chain(columns).collect();
    let rows = foreign.operations.iter().filter_map(row).collect();
    Table { title: "Operations that ended in one second".to_owned(), columns, rows, flexible: 0 }
}

/// The thresholds.
pub(super) fn thresholds(foreign: &Foreign) -> Table {
    let row = |it: &Threshold| {
        let (result, tone) = match it.held {
            Some(true) => ("held", Tone::Good),
            Some(false) => ("failed", Tone::Bad),
            None => ("not known", Tone::Doubtful),
        };
        vec![
            name(&it.metric),
            cut(&plain(&it.expression), NAME_MAX).into(),
            or_dash(it.value, number).into(),
            Cell::toned(result, tone),
        ]
    };
    let columns = vec![left("metric"), left("threshold"), right("measured"), left("result")];
    let rows = foreign.thresholds.iter().map(row).collect();
    Table { title: "Thresholds, in the tool's units".to_owned(), columns, rows, flexible: 0 }
}

/// The checks of answers.
pub(super) fn checks(foreign: &Foreign) -> Table {
    let row = |it: &Check| {
        let group = it.group.trim_start_matches(':').replace("::", " › ");
        let path = if group.is_empty() { it.name.clone() } else { format!("{group} › {}", it.name) };
        let total = it.passes.saturating_add(it.fails).max(1);
        let share = percent(it.passes as f64 / total as f64);
        vec![name(&path), exact(it.passes).into(), Cell::fault(it.fails), share.into()]
    };
    let columns = vec![left("check"), right("passes"), right("fails"), right("share")];
    let rows = foreign.checks.iter().map(row).collect();
    Table { title: "Checks".to_owned(), columns, rows, flexible: 0 }
}

/// Everything else.
pub(super) fn metrics(foreign: &Foreign) -> Table {
    let row = |it: &Metric| vec![name(&it.name), said(it).into()];
    let rows = foreign.metrics.iter().take(METRICS_MAX).map(row).collect();
    Table { title: "Other metrics".to_owned(), columns: vec![left(""), left("")], rows, flexible: 1 }
}

fn said(metric: &Metric) -> String {
    let show = |value: f64| in_unit(value, metric.unit);
    match &metric.values {
        Values::Counter { count, rate_per_s } => {
            let rate = rate_per_s.map(|rate| format!(", {}/s", show(rate))).unwrap_or_default();
            show(*count) + &rate
        }
        Values::Gauge { value, min, max } => {
            let ends = min.zip(*max).map(|(min, max)| format!(", from {} to {}", show(min), show(max)));
            show(*value) + &ends.unwrap_or_default()
        }
        Values::Share { share, yes, total } => {
            let of = yes.zip(*total).map(|(yes, total)| format!(", {} of {}", exact(yes), exact(total)));
            percent(*share) + &of.unwrap_or_default()
        }
        Values::Trend(trend) => {
            let percentiles = BESIDE.iter().filter_map(|at| Some((format!("p{at}"), trend.at(*at)?)));
            let all =
                [("mean", trend.mean), ("min", trend.min)].map(|(name, value)| (name.to_owned(), value));
            let all = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let all = all.chain(percentiles).chain(trend.max.map(|max| ("max".to_owned(), max)));
            all.map(|(name, value)| format!("{name} {}", show(value))).collect::<Vec<_>>().join(", ")
        }
    }
}

fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => time(value),
        Unit::Bytes => bytes(value.round().max(0.0) as u64),
        Unit::Plain => number(value),
    }
}

/// A number without a unit.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        exact(value as u64)
    } else {
        three_digits(value)
    }
}
