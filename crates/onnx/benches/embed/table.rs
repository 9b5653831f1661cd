//! What was measured, as text: the ratio first.

use std::fmt;

use crate::Rate;
use crate::workload::Workload;

/// The measurements of each subject (row) and workload (column).
pub(crate) struct Table {
    rows: Vec<String>,
    columns: Vec<String>,
    rates: Vec<Vec<Vec<Rate>>>,
}

impl Table {
    pub(crate) fn new(rows: Vec<String>, workloads: &[Workload]) -> Self {
        let columns: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
        let rates = vec![vec![Vec::new(); columns.len()]; rows.len()];
        Table { rows, columns, rates }
    }

    pub(crate) fn add(&mut self, row: usize, column: usize, rate: Rate) {
        self.rates[row][column].push(rate);
    }

    /// The median of each round's ratio to the first row, by CPU time.
    fn ratio(&self, row: usize, column: usize) -> f64 {
        let pairs = self.rates[row][column].iter().zip(&self.rates[0][column]);
        median(pairs.map(|(rate, base)| rate.per_cpu_s / base.per_cpu_s).collect())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (column, name) in self.columns.iter().enumerate() {
            writeln!(
                f,
                "{name:<27}{:>8}{:>12}  {:<18}{:>12}",
                "ratio", "median/s", "least to most", "per CPU s"
            )?;
            for (row, name) in self.rows.iter().enumerate() {
                let of =
                    |rate: fn(&Rate) -> f64| self.rates[row][column].iter().map(rate).collect::<Vec<_>>();
                let by_clock = of(|rate| rate.per_s);
                let least = by_clock.iter().copied().fold(f64::INFINITY, f64::min);
                let most = by_clock.iter().copied().fold(0.0, f64::max);
                let (ratio, middle) = (self.ratio(row, column), median(by_clock));
                let (spread, cpu) = (format!("{least:.1} to {most:.1}"), median(of(|rate| rate.per_cpu_s)));
                writeln!(f, "  {name:<25}{ratio:>8.2}{middle:>12.1}  {spread:<18}{cpu:>12.1}")?;
            }
            writeln!(f)?;
        }
        let first = self.rows.first().map_or("", String::as_str);
        write!(f, "Sentences a second on one thread. The ratio is to `{first}`, by CPU time, round by round.")
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        f64::NAN
    } else if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}
