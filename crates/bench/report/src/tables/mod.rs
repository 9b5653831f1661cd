//! Builds the tables of a run for terminals and pages.

mod cost;
mod facts;
mod integrity;
mod operations;
mod search;
mod workflow;

pub(crate) use cost::{accuracy, cost, traffic};
pub(crate) use facts::{environment, phase_figures, phases, scenario, server, server_in_words};
pub(crate) use operations::{latencies, rates};
pub(crate) use search::{at_limit, candidates, ladder, probes, result, stage, timings};
pub(crate) use workflow::workflow;

use std::borrow::Cow;

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::matrix::Spread;
use plimsoll_measure::run::{Run, Verdict};

use crate::units::{exact, or_dash, percentile};

/// Rows of cells under named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub title: String,
    /// The columns; without names there is no heading row.
    pub columns: Vec<Column>,
    /// One cell per column; missing cells at the end stay empty.
    pub rows: Vec<Vec<Cell>>,
    /// The column that shrinks if space is short.
    pub flexible: usize,
    /// Whether that column is then wrapped instead of cut.
    pub wraps: bool,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its heading.
    pub name: Cow<'static, str>,
    /// The alignment.
    pub align: Align,
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The meaning of a text. Colour never appears without the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No special meaning.
    #[default]
    Normal,
    /// A heading.
    Strong,
    /// Less important.
    Faint,
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// A result to read with care.
    Doubtful,
}

/// A text or number of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub text: String,
    /// Its meaning.
    pub tone: Tone,
}

impl Cell {
    /// `text` in `tone`.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// The name of a row.
    pub(crate) fn strong(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::Strong)
    }

    /// A number that should be zero.
    pub(crate) fn fault(count: u64) -> Self {
        Self::toned(exact(count), if count == 0 { Tone::Normal } else { Tone::Bad })
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: Tone::Normal }
    }
}

impl Table {
    /// A table of names and values without headings; rows without a value are left out.
    pub(crate) fn of_facts(title: &str, facts: Vec<(&str, Option<Cell>)>) -> Self {
        let rows =
            facts.into_iter().filter_map(|(name, value)| Some(vec![Cell::toned(name, Tone::Faint), value?]));
        let columns = vec![left(""), left("")];
        Self { title: title.to_owned(), columns, rows: rows.collect(), flexible: 1, wraps: true }
    }

    /// A table with a row for each of `items`, and no column yet.
    pub(crate) fn of<T: Copy>(title: impl Into<String>, items: impl IntoIterator<Item = T>) -> Rows<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        Rows { items, table: Self { title: title.into(), rows, ..Self::default() } }
    }

    /// Whether at least one column has a name.
    pub(crate) fn has_headings(&self) -> bool {
        self.columns.iter().any(|column| !column.name.is_empty())
    }
}

/// A table that is built column by column.
pub(crate) struct Rows<T> {
    items: Vec<T>,
    table: Table,
}

impl<T: Copy> Rows<T> {
    /// Adds a column of words.
    pub(crate) fn left<C: Into<Cell>>(
        self,
        name: impl Into<Cow<'static, str>>,
        cell: impl Fn(T) -> C,
    ) -> Self {
        self.column(left(name), cell)
    }

    /// Adds a column of numbers.
    pub(crate) fn right<C: Into<Cell>>(
        self,
        name: impl Into<Cow<'static, str>>,
        cell: impl Fn(T) -> C,
    ) -> Self {
        self.column(right(name), cell)
    }

    /// Adds the median, the 99th percentile and the largest value.
    pub(crate) fn latencies<'a>(self, of: impl Fn(T) -> &'a Latency) -> Self {
        self.right("p50", |it| percentile(of(it).p50, of(it)))
            .right("p99", |it| percentile(of(it).p99, of(it)))
            .right("max", |it| percentile(of(it).max, of(it)))
    }

    /// Lets the last column shrink if space is short.
    pub(crate) fn flexible(mut self) -> Self {
        self.table.flexible = self.table.columns.len() - 1;
        self
    }

    /// Wraps the last column if space is short.
    pub(crate) fn wrapped(self) -> Self {
        let mut rows = self.flexible();
        rows.table.wraps = true;
        rows
    }

    /// The finished table.
    pub(crate) fn table(self) -> Table {
        self.table
    }

    fn column<C: Into<Cell>>(mut self, column: Column, cell: impl Fn(T) -> C) -> Self {
        self.table.columns.push(column);
        self.items.iter().zip(&mut self.table.rows).for_each(|(item, row)| row.push(cell(*item).into()));
        self
    }
}

/// The outcomes of a run: answers, faults, the share of each server, integrity and expectations.
pub(crate) fn outcomes(run: &Run) -> impl Iterator<Item = Table> {
    let first = [operations::answers(run), operations::faults(run), operations::spread(run)];
    first.into_iter().chain(integrity::integrity(run)).chain([operations::expectations(run)])
}

/// The verdict of a run in a word. A warm-up has none.
pub(crate) fn run_word(run: &Run) -> (&'static str, Tone) {
    if run.warm_up { ("WARM-UP", Tone::Normal) } else { verdict_word(run.verdict) }
}

pub(crate) fn verdict_word(verdict: Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Pass => ("PASS", Tone::Good),
        Verdict::Fail => ("FAIL", Tone::Bad),
        Verdict::Invalid => ("INVALID", Tone::Doubtful),
    }
}

/// The median of a spread; a dash without one.
pub(crate) fn median(spread: Option<Spread>, show: impl Fn(f64) -> String) -> Cell {
    or_dash(spread, |spread| show(spread.median)).into()
}

/// A column of words.
pub(crate) fn left(name: impl Into<Cow<'static, str>>) -> Column {
    Column { name: name.into(), align: Align::Left }
}

/// A column of numbers.
pub(crate) fn right(name: impl Into<Cow<'static, str>>) -> Column {
    Column { name: name.into(), align: Align::Right }
}
