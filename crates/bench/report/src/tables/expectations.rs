//! Tabulates the expectations and their results.

use plimsoll_measure::run::{Expectation, Run};

use super::{Cell, Table, Tone, left, right};
use crate::expectation::measured;

/// A row for each expectation; nothing without any.
pub(crate) fn expectations(run: &Run) -> Option<Table> {
    let columns = vec![left("expectation"), left("bound"), right("measured"), left("result")];
    let rows: Vec<_> = run.expectations.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table { title: "Expectations".to_owned(), columns, rows, flexible: 3 })
}

fn row(expectation: &Expectation) -> Vec<Cell> {
    let result = match (expectation.held, &expectation.reason) {
        (true, _) => Cell::toned("held", Tone::Good),
        (false, None) => Cell::toned("failed", Tone::Bad),
        (false, Some(reason)) => Cell::toned(format!("failed: {reason}"), Tone::Bad),
    };
    let (metric, expression) = (expectation.metric.as_str(), expectation.expression.as_str());
    vec![metric.into(), expression.into(), measured(expectation).into(), result]
}
