//! Tabulates the rate and the CPU of operations, each compared with the best cell.

use plimsoll_measure::matrix::{Cell, Matrix, Spread};

use super::rate;
use crate::tables::{Cell as Word, Column, Tone, median, right};
use crate::units::{NONE, exact_rate, micros, percent, three_digits};

/// The optional columns between the keys and the times, as far as they have values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// The lowest to the highest of the repetitions.
    range: bool,
    /// The tool's CPU for one operation.
    cpu: bool,
    /// The ratio of the CPU to that of the best cell.
    times_least: bool,
    /// The unit of rates.
    rate: &'static str,
}

impl Measured {
    /// The columns that the cells of a matrix fill; `range` if the range of repetitions fits.
    pub(super) fn of(matrix: &Matrix, range: bool) -> Self {
        let pairs = || {
            let names = matrix.operations();
            matrix.cells.iter().flat_map(move |cell| names.clone().into_iter().map(move |name| (cell, name)))
        };
        let has_cpu = |(cell, name): (&Cell, &str)| {
            cell.of(name).is_some_and(|figures| figures.client_cpu_us_per_operation.is_some())
        };
        Self {
            range: range && matrix.repetitions > 1,
            cpu: pairs().any(has_cpu),
            times_least: pairs().any(|(cell, name)| matrix.times_least_cpu(cell, name).is_some()),
            rate: rate(matrix),
        }
    }

    /// The same columns without CPU.
    pub(super) const fn without_cpu(self) -> Self {
        Self { cpu: false, times_least: false, ..self }
    }

    pub(super) fn cpu_columns(self) -> Vec<Column> {
        let range = (self.cpu && self.range).then(|| right("lowest to highest"));
        let [cpu, least] = self.cost_columns();
        [cpu, range, least].into_iter().flatten().collect()
    }

    /// The CPU of an operation, with a cell for each of these columns.
    pub(super) fn cpu_words(self, matrix: &Matrix, cell: &Cell, name: &str) -> Vec<Word> {
        let cpu = cell.of(name).and_then(|figures| figures.client_cpu_us_per_operation);
        let range = |spread: Spread| format!("{} to {}", micros(spread.min), micros(spread.max));
        let range = (self.cpu && self.range).then(|| or_none(cpu.map(|cpu| range(cpu).into())));
        let [cost, least] = self.cost_words(matrix, cell, name);
        [cost, range, least].into_iter().flatten().collect()
    }

    fn cost_columns(self) -> [Option<Column>; 2] {
        [self.cpu.then(|| right("CPU/op")), self.times_least.then(|| right("× least"))]
    }

    fn cost_words(self, matrix: &Matrix, cell: &Cell, name: &str) -> [Option<Word>; 2] {
        let cpu = cell.of(name).and_then(|figures| figures.client_cpu_us_per_operation);
        [
            self.cpu.then(|| median(cpu, micros)),
            self.times_least.then(|| or_none(matrix.times_least_cpu(cell, name).map(times))),
        ]
    }

    /// The columns of rates, and of CPU if the cells have it.
    pub(super) fn columns(self) -> Vec<Column> {
        let columns =
            [Some(right(self.rate)), self.range.then(|| right("lowest to highest")), Some(right("of best"))];
        columns.into_iter().chain(self.cost_columns()).flatten().collect()
    }

    /// An operation of a cell, with a table cell for each column.
    pub(super) fn words(self, matrix: &Matrix, cell: &Cell, name: &str) -> Vec<Word> {
        let figures = cell.of(name);
        let rate = figures.and_then(|it| it.documents_per_s);
        let range = |spread: Spread| format!("{} to {}", exact_rate(spread.min), exact_rate(spread.max));
        let words = [
            Some(median(rate, exact_rate)),
            self.range.then(|| or_none(rate.map(|rate| range(rate).into()))),
            Some(or_none(matrix.share_of_best(cell, name).map(best))),
        ];
        words.into_iter().chain(self.cost_words(matrix, cell, name)).flatten().collect()
    }

    /// The title of a table of times and CPU.
    pub(super) fn cpu_title(self, matrix: &Matrix) -> String {
        let mut title = "Response time of an operation".to_owned();
        if self.cpu {
            title += "; CPU of Plimsoll for one";
        }
        if self.cpu && self.range {
            title += &format!(", median of {} runs, lowest to highest", matrix.repetitions);
        }
        if let Some(first) = matrix.axes.first().filter(|_| self.times_least) {
            title += &format!(
                ", and as a multiple of the lowest among the cells that differ in {} alone",
                first.name
            );
        }
        title
    }

    /// The title of a table of rates.
    pub(super) fn title(self, matrix: &Matrix) -> String {
        let mut title =
            if matrix.counts_requests() { "Requests per second" } else { "Documents per second" }.to_owned();
        if matrix.repetitions > 1 {
            title += &format!(": median of {} runs", matrix.repetitions);
        }
        if self.range {
            title += ", lowest to highest";
        }
        if let Some(first) = matrix.axes.first().filter(|axis| axis.values.len() > 1) {
            let comma = if matrix.repetitions > 1 { "," } else { "" };
            title += &format!("{comma} and as a share of the best cell that differs in {} alone", first.name);
        }
        if self.cpu {
            title += "; CPU of Plimsoll for one operation";
        }
        if self.times_least {
            title += ", and as a multiple of the lowest among those cells";
        }
        title
    }
}

fn or_none(word: Option<Word>) -> Word {
    word.unwrap_or_else(|| NONE.into())
}

fn times(times: f64) -> Word {
    Word::toned(format!("{} ×", three_digits(times)), if times <= 1.0 { Tone::Good } else { Tone::Normal })
}

fn best(share: f64) -> Word {
    Word::toned(percent(share), if share >= 1.0 { Tone::Good } else { Tone::Normal })
}
