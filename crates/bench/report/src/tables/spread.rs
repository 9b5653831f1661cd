//! Tabulates the share of each server in the load.

use plimsoll_measure::run::{Run, ServerShare};

use super::{Cell, Table, Tone, left, right};
use crate::units::{exact, percent};

/// A row for each server; nothing for a single one.
pub(crate) fn spread(run: &Run) -> Table {
    let columns = vec![
        left("server"),
        right("operations"),
        right("of even"),
        right("documents"),
        right("failed"),
        right("passed over"),
        left("away"),
    ];
    let total: u64 = run.spread.iter().map(|share| share.operations).sum();
    let even = total as f64 / run.spread.len().max(1) as f64;
    let rows = run.spread.iter().map(|share| row(share, even)).collect();
    Table { title: "Servers".to_owned(), columns, rows, flexible: 6 }
}

fn row(share: &ServerShare, even: f64) -> Vec<Cell> {
    let away = share.away.as_deref().map(|why| Cell::toned(why, Tone::Bad));
    vec![
        Cell::toned(share.address.as_str(), Tone::Strong),
        exact(share.operations).into(),
        percent(share.operations as f64 / even.max(1.0)).into(),
        exact(share.documents).into(),
        Cell::fault(share.failed),
        exact(share.passed_over).into(),
        away.unwrap_or_else(|| "never".into()),
    ]
}
