//! Tabulates a result of another tool.

use plimsoll_measure::histogram::supported;
use plimsoll_measure::matrix::Spread;

use super::distribution::Distribution;
use super::value::{Check, Foreign, Metric, Of, Operation, Since, Unit, Values};
use crate::layout::cut;
use crate::prose::plain;
use crate::tables::{Cell, Table, Tone};
use crate::units::{NONE, bytes, exact, exact_rate, latency, or_dash, percent, three_digits};

/// Percentiles that get a column if the result has them.
const SHOWN: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
/// The maximum number of percentile columns.
const SHOWN_MAX: usize = 5;
/// Percentiles of other metrics, in a line of text.
const IN_TEXT: [f64; 3] = [50.0, 95.0, 99.0];
/// The longest name in a column, in characters.
const NAME_MAX: usize = 44;
/// The maximum number of other metrics shown.
const METRICS_MAX: usize = 60;
/// The maximum number of classes of errors shown.
const ERRORS_MAX: usize = 20;
/// Marks a percentile that too few values support.
const FEW: &str = " ?";
/// The meaning of the mark.
pub(super) const FEW_IN_WORDS: &str =
    "? marks percentiles with fewer than ten values beyond them: they are a matter of chance";

fn name(text: &str) -> Cell {
    Cell::strong(cut(&plain(text), NAME_MAX))
}

/// A shorter name for a row below the row with the full name: the path without scheme and host, or only the
/// tags.
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
    let share = |it: &Operation| {
        let count = it.count.filter(|count| *count > 0)?;
        Some(it.failed? as f64 / count as f64)
    };
    Table::of("Operations", &foreign.operations)
        .left("operation", |it| name(&it.name))
        .right("count", |it| or_dash(it.count, exact))
        .right("per second", |it| or_dash(it.rate_per_s, exact_rate))
        .right("failed", |it| it.failed.map_or_else(|| NONE.into(), Cell::fault))
        .right("share", |it| or_dash(share(it), percent))
        .table()
}

/// Latencies that count from the same moment.
pub(super) fn times(foreign: &Foreign, since: Since) -> Table {
    let each = foreign.operations.iter().flat_map(|it| it.times.iter().map(move |times| (it, times)));
    let each = each.filter(|(_, times)| times.since == since);
    let mut table = Table::of(title(since), each.clone())
        .left("operation", |(it, _)| short(&it.name))
        .left("of", |(_, times)| of(times.of))
        .right("mean", |(_, times)| or_dash(times.ns.mean, time));
    for at in percentiles(each.map(|(_, times)| &times.ns)) {
        table = table.right(format!("p{at}"), |(_, times)| percentile(&times.ns, at));
    }
    table.right("max", |(_, times)| or_dash(times.ns.max, time)).table()
}

const fn title(since: Since) -> &'static str {
    match since {
        Since::Due => "Response time, counted from when an operation was due",
        Since::Sent => "Service time, counted from when it was sent: coordinated omission is possible",
        Since::Unknown => "Times whose start the file does not state",
    }
}

const fn of(of: Of) -> &'static str {
    match of {
        Of::All => "all",
        Of::Successes => "successes",
        Of::Failures => "failures",
    }
}

/// The percentiles to show. Those above p99 are shown only if enough values support them. If there are too
/// many, p75 and then p90 are dropped.
fn percentiles<'a>(distributions: impl Iterator<Item = &'a Distribution> + Clone) -> Vec<f64> {
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

/// Whether too few values support one of the shown percentiles.
pub(super) fn has_few(foreign: &Foreign) -> bool {
    let all = foreign.operations.iter().flat_map(|it| &it.times);
    all.map(|it| &it.ns).any(|ns| SHOWN.iter().any(|at| ns.at(*at).is_some() && is_few(ns, *at)))
}

/// Failures by class.
pub(super) fn errors(foreign: &Foreign) -> Table {
    let each = foreign.operations.iter().flat_map(|it| it.errors.iter().map(move |error| (&it.name, error)));
    Table::of("Errors", each.take(ERRORS_MAX))
        .left("operation", |(operation, _)| name(operation))
        .left("class", |(_, (class, _))| cut(&plain(class), NAME_MAX))
        .flexible()
        .right("count", |(_, (_, count))| Cell::fault(*count))
        .table()
}

/// The spread of operations over the full seconds: the first and the last second are not full.
pub(super) fn seconds(foreign: &Foreign) -> Table {
    let full = foreign.seconds.get(1..foreign.seconds.len().saturating_sub(1)).unwrap_or_default();
    let row = |it: &'_ Operation| {
        let mut lines: Vec<_> = full.iter().filter_map(|second| second.operations.get(&it.name)).collect();
        lines.sort_by_key(|line| line.count);
        let median = Spread::of(lines.iter().map(|line| line.count as f64))?.median;
        // A second without an operation has no line, and is the slowest of all.
        let least = if lines.len() < full.len() { 0 } else { lines.first()?.count };
        let longest_ns = lines.iter().map(|line| line.max_ns).max()?;
        Some((least, median.round() as u64, lines.last()?.count, longest_ns))
    };
    let rows = foreign.operations.iter().filter_map(|it| Some((it, row(it)?)));
    Table::of("Operations that ended in one second", rows)
        .left("operation", |(it, _)| name(&it.name))
        .right("full seconds", |_| exact(full.len() as u64))
        .right("fewest", |(_, (least, ..))| exact(least))
        .right("median", |(_, (_, median, ..))| exact(median))
        .right("most", |(_, (_, _, most, _))| exact(most))
        .right("longest time", |(_, (.., longest_ns))| latency(longest_ns))
        .table()
}

/// The thresholds, with their measured values and whether they held.
pub(super) fn thresholds(foreign: &Foreign) -> Table {
    Table::of("Thresholds, in the tool's units", &foreign.thresholds)
        .left("metric", |it| name(&it.metric))
        .left("threshold", |it| cut(&plain(&it.expression), NAME_MAX))
        .right("measured", |it| or_dash(it.value, number))
        .left("result", |it| match it.held {
            Some(true) => Cell::toned("held", Tone::Good),
            Some(false) => Cell::toned("failed", Tone::Bad),
            None => Cell::toned("not known", Tone::Doubtful),
        })
        .table()
}

/// The checks of answers.
pub(super) fn checks(foreign: &Foreign) -> Table {
    let path = |it: &Check| {
        let group = it.group.trim_start_matches(':').replace("::", " › ");
        if group.is_empty() { it.name.clone() } else { format!("{group} › {}", it.name) }
    };
    let total = |it: &Check| it.passes.saturating_add(it.fails).max(1);
    Table::of("Checks", &foreign.checks)
        .left("check", |it| name(&path(it)))
        .right("passes", |it| exact(it.passes))
        .right("fails", |it| Cell::fault(it.fails))
        .right("share", |it| percent(it.passes as f64 / total(it) as f64))
        .table()
}

/// All other metrics.
pub(super) fn metrics(foreign: &Foreign) -> Table {
    let metrics = foreign.metrics.iter().take(METRICS_MAX);
    Table::of("Other metrics", metrics).left("", |it| name(&it.name)).left("", words).wrapped().table()
}

fn words(metric: &Metric) -> String {
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
            let percentiles = IN_TEXT.map(|at| (format!("p{at}"), trend.at(at)));
            let [mean, min, max] = [("mean", trend.mean), ("min", trend.min), ("max", trend.max)]
                .map(|(name, value)| (name.to_owned(), value));
            let all = [mean, min].into_iter().chain(percentiles).chain([max]);
            let all = all.filter_map(|(name, value)| Some(format!("{name} {}", show(value?))));
            all.collect::<Vec<_>>().join(", ")
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
