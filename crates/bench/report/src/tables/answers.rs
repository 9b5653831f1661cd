//! Tabulates the answers of a service and the expectations of a scenario.

use plimsoll_measure::run::{Answers, Expectation, Run};

use super::{Cell, Table, Tone, left, right};
use crate::expectation::measured;
use crate::units::exact;

/// A row for each check and each status of an operation; nothing without a service.
pub(crate) fn answers(run: &Run) -> Table {
    let columns = vec![left("operation"), left("answer"), right("held"), right("failed")];
    let rows = run.answers.iter().flat_map(rows).collect();
    Table { title: "Answers".to_owned(), columns, rows, flexible: 1 }
}

fn rows(answers: &Answers) -> Vec<Vec<Cell>> {
    let statuses = answers.statuses.iter().map(|(status, count)| {
        let name = if *status == 0 { "none".to_owned() } else { format!("{status}") };
        vec![name.into(), exact(*count).into(), Cell::default()]
    });
    let checks = answers.checks.iter().map(|check| {
        vec![format!("check {}", check.name).into(), exact(check.passed).into(), Cell::fault(check.failed)]
    });
    let named = statuses.chain(checks).enumerate();
    named
        .map(|(index, cells)| {
            let operation = if index == 0 { answers.operation.as_str() } else { "" };
            [Cell::toned(operation, Tone::Strong)].into_iter().chain(cells).collect()
        })
        .collect()
}

/// A row for each expectation; nothing without any.
pub(crate) fn expectations(run: &Run) -> Option<Table> {
    let columns = vec![left("expectation"), left("bound"), right("measured"), left("result")];
    let rows: Vec<_> = run.expectations.iter().map(expectation).collect();
    (!rows.is_empty()).then(|| Table { title: "Expectations".to_owned(), columns, rows, flexible: 3 })
}

fn expectation(expectation: &Expectation) -> Vec<Cell> {
    let result = match (expectation.held, &expectation.reason) {
        (true, _) => Cell::toned("held", Tone::Good),
        (false, None) => Cell::toned("failed", Tone::Bad),
        (false, Some(reason)) => Cell::toned(format!("failed: {reason}"), Tone::Bad),
    };
    let (metric, expression) = (expectation.metric.as_str(), expectation.expression.as_str());
    vec![metric.into(), expression.into(), measured(expectation).into(), result]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::run::Check;

    use super::*;

    #[test]
    fn every_status_and_every_check_has_a_row() {
        let answers = Answers {
            operation: "ingest".into(),
            statuses: BTreeMap::from([(0, 2), (201, 1000)]),
            checks: vec![Check { name: "status 201".into(), passed: 1000, failed: 2 }],
        };
        let table = super::answers(&Run { answers: vec![answers], ..Run::default() });
        let text: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(
            text,
            [
                vec!["ingest", "none", "2", ""],
                vec!["", "201", "1,000", ""],
                vec!["", "check status 201", "1,000", "2"],
            ]
        );
        assert!(super::answers(&Run::default()).rows.is_empty());
    }
}
