//! Tabulates the tests of a suite.

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::suite::{Extreme, Figures, Outcome, Row, Suite, Test};

use super::outcome_tone;
use super::sentences::{change, made, microseconds, moment, times as ratio_words};
use crate::layout::{Width, fitting};
use crate::tables::{Cell, Table, Tone, left, right};
use crate::units::{N_TOO_SMALL, NONE, duration, exact, exact_rate, latency, or_dash};

/// Optional columns, shown if they fit.
#[derive(Clone, Copy)]
struct Room {
    /// The lowest and the highest of the repetitions.
    range: bool,
    /// The difference to the row above.
    change: bool,
}

impl Room {
    /// The choices of columns from the widest to the narrowest.
    const ALL: [Self; 4] = [
        Self { range: true, change: true },
        Self { range: true, change: false },
        Self { range: false, change: true },
        Self { range: false, change: false },
    ];
}

/// The columns of the cost stack that fit into `width`.
pub(super) fn stack(suite: &Suite, width: Width) -> Table {
    fitting(Room::ALL.into_iter().map(|room| stack_in(suite, room)), width)
}

fn stack_in(suite: &Suite, room: Room) -> Table {
    let (unit, compared) = (unit(suite), has_references(suite));
    let range_too = room.range && suite.tests.iter().any(|test| test.repetitions > 1);
    let mut columns = vec![left("test"), left("completed"), right(format!("{unit}/s"))];
    columns.extend(range_too.then(|| right("lowest–highest")));
    columns.extend(compared.then(|| right("reference")));
    columns.push(right("× above"));
    columns.extend(room.change.then(|| right("change/s")));
    columns.extend([right("p99"), right("lost"), left("extreme")]);
    let row = |test: &Test| {
        let figures = test.figures.as_ref();
        let mut row = vec![test.name.clone().into(), completed(suite, test), rate(figures, &unit)];
        row.extend(range_too.then(|| range(figures)));
        row.extend(compared.then(|| reference(test)));
        row.push(ratio(test));
        row.extend(room.change.then(|| moved(test)));
        row.extend([time(figures, |it| it.p99_ns), lost(figures), extreme(test)]);
        row
    };
    Table { title: title(suite), columns, rows: suite.tests.iter().map(row).collect(), ..Table::default() }
}

/// The cost stack with all columns, for a page.
pub(super) fn full(suite: &Suite) -> Table {
    let unit = unit(suite);
    let mut columns = vec![left("test"), left("completed"), right(format!("{unit}/s"))];
    columns.extend(["lowest–highest", "above", "× above", "change/s", "added time"].map(right));
    let compared = has_references(suite);
    columns.extend(["reference", "× reference"].into_iter().filter(|_| compared).map(right));
    columns.push(left("extreme"));
    let row = |test: &Test| {
        let figures = test.figures.as_ref();
        let delta = test.delta.as_ref();
        let above = or_dash(delta, |delta| delta.above.clone());
        let cost = or_dash(delta, |delta| microseconds(delta.cost_us));
        let mut row =
            vec![test.name.clone().into(), completed(suite, test), rate(figures, &unit), range(figures)];
        row.extend([above.into(), ratio(test), moved(test), cost.into()]);
        row.extend([reference(test), reference_ratio(test)].into_iter().filter(|_| compared));
        row.push(extreme(test));
        row
    };
    Table { title: title(suite), columns, rows: suite.tests.iter().map(row).collect(), ..Table::default() }
}

/// Response times and CPU, for a page.
pub(super) fn times(suite: &Suite) -> Table {
    let names = [
        "total",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        "errors",
        "lost",
        "Plimsoll's CPU",
        "server's CPU",
    ];
    let columns = std::iter::once(left("test")).chain(names.map(right)).collect();
    let row = |test: &Test| {
        let figures = test.figures.as_ref()?;
        let some = Some(figures);
        let cpu =
            |spread: Option<Spread>| -> Cell { or_dash(spread, |spread| microseconds(spread.median)).into() };
        let mut row: Vec<Cell> = vec![test.name.clone().into(), exact(figures.total).into()];
        let picks: [fn(&Figures) -> Option<Spread>; 6] = [
            |it| it.mean_ns,
            |it| it.p50_ns,
            |it| it.p95_ns,
            |it| it.p99_ns,
            |it| it.p99_9_ns,
            |it| it.max_ns,
        ];
        row.extend(picks.map(|pick| time(some, pick)));
        row.extend([
            Cell::fault(figures.errors),
            lost(some),
            cpu(figures.client_cpu_us),
            cpu(figures.server_cpu_us),
        ]);
        Some(row)
    };
    let title = "Response times of operations, and the CPU per counted unit; medians of the completed runs";
    Table {
        title: title.to_owned(),
        columns,
        rows: suite.tests.iter().filter_map(row).collect(),
        ..Table::default()
    }
}

/// The time range of each load.
pub(super) fn ranges(suite: &Suite) -> Table {
    let columns = vec![left("run"), left("outcome"), right("from"), right("to"), right("took")];
    let row = |row: &Row| {
        let outcome = Cell::toned(row.outcome.name(), outcome_tone(row.outcome));
        let took = duration(row.to_ms.saturating_sub(row.from_ms) as f64 / 1000.0);
        vec![
            row.directory.clone().into(),
            outcome,
            row.from_ms.to_string().into(),
            row.to_ms.to_string().into(),
            took.into(),
        ]
    };
    let title = "Time ranges, in milliseconds since 1970 in UTC".to_owned();
    Table { title, columns, rows: suite.rows.iter().map(row).collect(), ..Table::default() }
}

/// The settings of each test, for a page.
pub(super) fn settings(suite: &Suite) -> Table {
    let columns = vec![left("test"), left("runs"), left("with"), right("times")];
    let row = |test: &Test| {
        let with = if test.settings.is_empty() { "as it says".to_owned() } else { test.settings.join(", ") };
        let what = format!("{} {}", test.kind.name(), test.what);
        vec![test.name.clone().into(), what.into(), with.into(), test.repetitions.to_string().into()]
    };
    let rows = suite.tests.iter().map(row).collect();
    Table { title: "What each test is".to_owned(), columns, rows, flexible: 2, wraps: true }
}

/// The start and the end of a run, in UTC.
pub(super) fn moments(row: &Row) -> String {
    format!("{} to {}", moment(row.from_ms), moment(row.to_ms))
}

/// The unit of the rates in a table: that of the first test with figures.
pub(super) fn unit(suite: &Suite) -> String {
    let first = suite.tests.iter().find_map(|test| Some(test.figures.as_ref()?.unit.clone()));
    first.unwrap_or_else(|| "documents".to_owned())
}

fn title(suite: &Suite) -> String {
    let single = suite.tests.iter().all(|test| test.repetitions == 1);
    let what = if single { "one run of each test" } else { "medians of the completed runs" };
    format!("Cost stack: {what}; each row is compared with the row above")
}

fn completed(suite: &Suite, test: &Test) -> Cell {
    let full = test.figures.as_ref().is_some_and(|figures| figures.runs == test.repetitions);
    let failed = suite
        .rows
        .iter()
        .any(|row| row.test == test.name && matches!(row.outcome, Outcome::Failed | Outcome::Hung));
    let tone = match (full, failed) {
        (_, true) => Tone::Bad,
        (true, false) => Tone::Normal,
        (false, false) => Tone::Doubtful,
    };
    Cell::toned(made(suite, test), tone)
}

/// The median, with its unit if that differs from the column's.
fn rate(figures: Option<&Figures>, unit: &str) -> Cell {
    let Some(figures) = figures else { return NONE.into() };
    let rate = exact_rate(figures.rate_per_s.median);
    if figures.unit == unit { rate.into() } else { format!("{rate} {}", figures.unit).into() }
}

fn range(figures: Option<&Figures>) -> Cell {
    let spread = figures.map(|figures| figures.rate_per_s).filter(|spread| spread.of > 1);
    or_dash(spread, |it| format!("{}–{}", exact_rate(it.min), exact_rate(it.max))).into()
}

fn ratio(test: &Test) -> Cell {
    or_dash(test.delta.as_ref(), |delta| ratio_words(delta.ratio)).into()
}

fn has_references(suite: &Suite) -> bool {
    suite.tests.iter().any(|test| test.reference.is_some())
}

/// The published rate that the suite's file gives for a test.
fn reference(test: &Test) -> Cell {
    or_dash(test.reference.as_ref(), |reference| exact(reference.rate_per_s)).into()
}

/// The ratio of the median to the published rate.
fn reference_ratio(test: &Test) -> Cell {
    let both =
        test.figures.as_ref().zip(test.reference.as_ref()).filter(|(_, reference)| reference.rate_per_s > 0);
    let ratio = both.map(|(figures, reference)| figures.rate_per_s.median / reference.rate_per_s as f64);
    or_dash(ratio, ratio_words).into()
}

fn moved(test: &Test) -> Cell {
    or_dash(test.delta.as_ref(), |delta| change(delta.change_per_s)).into()
}

/// A time of a test, as the median of its runs.
pub(super) fn time(figures: Option<&Figures>, pick: fn(&Figures) -> Option<Spread>) -> Cell {
    match figures.map(pick) {
        None => NONE.into(),
        Some(None) => N_TOO_SMALL.into(),
        Some(Some(spread)) => latency(spread.median as u64).into(),
    }
}

fn lost(figures: Option<&Figures>) -> Cell {
    figures.and_then(|figures| figures.lost).map_or_else(|| NONE.into(), Cell::fault)
}

fn extreme(test: &Test) -> Cell {
    match test.extreme {
        Extreme::Floor => Cell::toned("floor", Tone::Strong),
        Extreme::Ceiling => Cell::toned("ceiling", Tone::Strong),
        Extreme::Between => "".into(),
    }
}
