//! Formats the measurements as text: ratios first.

use std::fmt;

use plimsoll_measure::matrix::Spread;

use crate::subject::{Embedding, Label};
use crate::workload::Workload;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The rate by elapsed time.
    pub(crate) per_s: f64,
    /// The rate by the process's CPU time.
    pub(crate) per_cpu_s: f64,
}

/// The measurements of each subject (row) and workload (column), one for each round.
pub(crate) struct Table {
    rows: Vec<Label>,
    columns: Vec<String>,
    rates: Vec<Vec<Vec<Rate>>>,
}

impl Table {
    pub(crate) fn new(rows: Vec<Label>, workloads: &[Workload]) -> Self {
        let columns: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
        let rates = vec![vec![Vec::new(); columns.len()]; rows.len()];
        Table { rows, columns, rates }
    }

    pub(crate) fn add(&mut self, row: usize, column: usize, rate: Rate) {
        self.rates[row][column].push(rate);
    }

    pub(crate) fn labels(&self) -> &[Label] {
        &self.rows
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The measurements of a subject and a workload.
    pub(crate) fn rates(&self, row: usize, column: usize) -> &[Rate] {
        &self.rates[row][column]
    }

    /// The row of Python with the same file, unless it is this row.
    pub(crate) fn python_with_file_of(&self, row: usize) -> Option<usize> {
        let wanted = Label { embedding: Embedding::Python, ..self.rows[row] };
        self.rows.iter().position(|label| *label == wanted).filter(|found| *found != row)
    }

    /// The median of each round's ratio to another row, by CPU time.
    fn ratio(&self, row: usize, other: usize, column: usize) -> f64 {
        let pairs = self.rates(row, column).iter().zip(self.rates(other, column));
        spread(pairs.map(|(rate, other)| rate.per_cpu_s / other.per_cpu_s)).median
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, row: usize, column: usize) -> fmt::Result {
        let of = |rate: fn(&Rate) -> f64| spread(self.rates(row, column).iter().map(rate));
        let (by_clock, by_cpu) = (of(|rate| rate.per_s), of(|rate| rate.per_cpu_s));
        let same = self
            .python_with_file_of(row)
            .map_or(String::new(), |python| format!("{:.2}", self.ratio(row, python, column)));
        let range = format!("{:.1} to {:.1}", by_clock.min, by_clock.max);
        let (name, ratio) = (&self.rows[row], self.ratio(row, 0, column));
        writeln!(
            f,
            "  {name:<28}{ratio:>8.2}{same:>11}{:>12.1}  {range:<18}{:>12.1}",
            by_clock.median, by_cpu.median
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (column, name) in self.columns.iter().enumerate() {
            writeln!(
                f,
                "{name:<30}{:>8}{:>11}{:>12}  {:<18}{:>12}",
                "ratio", "same file", "median/s", "min to max", "per CPU s"
            )?;
            (0..self.rows.len()).try_for_each(|row| self.line(f, row, column))?;
            writeln!(f)?;
        }
        let first = self.rows.first().map_or(String::new(), Label::to_string);
        write!(
            f,
            "Sentences a second on one thread. The ratio is to `{first}`, under `same file` to Python with the row's file; both by CPU \
             time, the median of the rounds."
        )
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    Spread::of(values).unwrap_or(Spread::NONE)
}
