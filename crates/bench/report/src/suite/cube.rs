//! Tabulates a suite whose tests combine two settings, such as `10k-r100`: sizes and percentiles in rows, rates in columns.

use plimsoll_measure::matrix::Spread;
use plimsoll_measure::suite::{Figures, Suite};

use super::tables::time;
use crate::tables::{Cell, Table, left, right};

/// A row of a size: its name, and its figure of a test.
type Percentile = (&'static str, fn(&Figures) -> Option<Spread>);

/// The rows of each size.
const PERCENTILES: [Percentile; 5] = [
    ("p50", |it| it.p50_ns),
    ("p95", |it| it.p95_ns),
    ("p99", |it| it.p99_ns),
    ("p99.9", |it| it.p99_9_ns),
    ("max", |it| it.max_ns),
];

/// The cube. `None` unless every first part of a name occurs with every last part, and each has two values or more.
pub(super) fn cube(suite: &Suite) -> Option<Table> {
    let names: Vec<(&str, &str)> =
        suite.tests.iter().map(|test| test.name.rsplit_once('-')).collect::<Option<_>>()?;
    let (sizes, rates) = (distinct(names.iter().map(|it| it.0)), distinct(names.iter().map(|it| it.1)));
    if sizes.len() < 2 || rates.len() < 2 || sizes.len() * rates.len() != suite.tests.len() {
        return None;
    }
    let columns =
        ["", "response"].map(left).into_iter().chain(rates.iter().map(|rate| right((*rate).to_owned())));
    let row = |size: &str, (name, pick): Percentile| -> Vec<Cell> {
        let test = |rate: &&str| suite.tests.iter().find(|test| test.name == format!("{size}-{rate}"));
        let cells = rates.iter().map(|rate| time(test(rate).and_then(|test| test.figures.as_ref()), pick));
        [Cell::from(size.to_owned()), name.to_owned().into()].into_iter().chain(cells).collect()
    };
    let rows = sizes.iter().flat_map(|size| PERCENTILES.map(|percentile| row(size, percentile)));
    Some(Table {
        title: "Response times by both parts of a test's name; medians of the completed runs".to_owned(),
        columns: columns.collect(),
        rows: rows.collect(),
        ..Table::default()
    })
}

/// Each value once, in the order of the suite.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::suite::Test;

    use super::*;
    use crate::suite::tests::sample;

    /// A suite with these tests, without results but for the first.
    fn suite(names: &[&str]) -> Suite {
        let measured = sample().tests[0].figures.clone();
        let of = |(index, name): (usize, &&str)| Test {
            name: (*name).to_owned(),
            figures: measured.clone().filter(|_| index == 0),
            ..Test::default()
        };
        Suite { tests: names.iter().enumerate().map(of).collect(), ..Suite::default() }
    }

    #[test]
    fn every_combination_has_its_percentiles() {
        let table = cube(&suite(&["1k-r10", "1k-r100", "10k-r10", "10k-r100", "1m-r10", "1m-r100"])).unwrap();
        assert_eq!((table.columns.len(), table.rows.len()), (4, 3 * PERCENTILES.len()));
        let text = |row: usize, column: usize| table.rows[row][column].text.clone();
        assert_eq!([text(0, 0), text(0, 1), text(0, 2), text(0, 3)], ["1k", "p50", "1.39 ms", "–"]);
        assert_eq!((text(5, 0), text(14, 1)), ("10k".into(), "max".into()));
    }

    #[test]
    fn a_suite_of_other_names_has_no_cube() {
        for names in [
            &["1k-r10", "1k-r100", "10k-r10"][..],
            &["1k-r10", "1k-r100"],
            &["null", "relaxed", "a-b", "c-d"],
            &["a-x", "b-y", "c-z", "d-w"],
            &[],
        ] {
            assert!(cube(&suite(names)).is_none(), "{names:?}");
        }
    }
}
