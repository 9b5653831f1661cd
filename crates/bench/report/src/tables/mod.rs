//! Builds the tables of a run for terminals and pages.

mod answers;
mod cost;
mod facts;
mod faults;
mod integrity;
mod operations;
mod probes;
mod suspects;

pub(crate) use answers::{answers, expectations};
pub(crate) use cost::{cost, ruler, traffic};
pub(crate) use facts::{environment, phase_figures, phases, scenario, server, server_in_words};
pub(crate) use faults::faults;
pub(crate) use integrity::integrity;
pub(crate) use operations::{latencies, rates, spread};
pub(crate) use probes::{ladder, probes, result, stage};
pub(crate) use suspects::{at_limit, suspects};

use std::borrow::Cow;

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::run::Verdict;

use crate::units::or_dash;

/// Rows of cells under named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// The title.
    pub title: String,
    /// The columns; without names there is no heading row.
    pub columns: Vec<Column>,
    /// One cell a column; missing cells at the end stay empty.
    pub rows: Vec<Vec<Cell>>,
    /// The column that gives way where room is short.
    pub flexible: usize,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its heading.
    pub name: Cow<'static, str>,
    /// Which side is filled up.
    pub align: Align,
}

/// On which side a column is filled up.
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
    /// Nothing in particular.
    #[default]
    Normal,
    /// A heading.
    Strong,
    /// Of less weight.
    Faint,
    /// It held.
    Good,
    /// It did not hold.
    Bad,
    /// Doubtful.
    Doubtful,
}

/// A text or number of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its text.
    pub text: String,
    /// Its meaning.
    pub tone: Tone,
}

impl Cell {
    /// `text` in `tone`.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// A number that should be zero.
    pub(crate) fn fault(count: u64) -> Self {
        Self::toned(crate::units::exact(count), if count == 0 { Tone::Normal } else { Tone::Bad })
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
        Self { title: title.to_owned(), columns: vec![left(""), left("")], rows: rows.collect(), flexible: 1 }
    }

    /// Whether it has headings.
    pub(crate) fn has_headings(&self) -> bool {
        self.columns.iter().any(|column| !column.name.is_empty())
    }
}

/// A verdict in a word.
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
