//! Tabulates the injected faults and their effects.

use plimsoll_measure::run::{FaultFacts, Run};

use super::{Cell, Table, Tone, left, right};
use crate::derived::{classes, fault_at_s};
use crate::units::duration;

/// A row for each fault at its moment in its phase, as in scenarios and the live view.
pub(crate) fn faults(run: &Run) -> Table {
    let columns = vec![
        left("fault"),
        right(if run.phases.len() > 1 { "at, in its phase" } else { "at" }),
        right("lasted"),
        right("silent for"),
        right("success after"),
        right("held after"),
        left("failed"),
    ];
    Table {
        title: "Faults".to_owned(),
        columns,
        rows: run.faults.iter().map(|fault| row(run, fault)).collect(),
        flexible: 6,
    }
}

fn row(run: &Run, fault: &FaultFacts) -> Vec<Cell> {
    let since = |at_s: Option<f64>| at_s.map(|at_s| duration(at_s - fault.from_s));
    let out = fault.outage_s > 0.0;
    let never = |word: &str| Cell::toned(word, Tone::Bad);
    let first =
        since(fault.first_success_s).map_or_else(|| if out { never("not") } else { "–".into() }, Cell::from);
    let failed = match &fault.error {
        Some(error) => Cell::toned(error.as_str(), Tone::Bad),
        None => classes(&fault.errors).map_or_else(String::new, |(_, list)| list).into(),
    };
    vec![
        Cell::toned(fault.name.as_str(), Tone::Strong),
        duration(fault_at_s(run, fault)).into(),
        since(fault.to_s).map_or_else(|| never("not undone"), Cell::from),
        if out { duration(fault.outage_s).into() } else { "–".into() },
        first,
        since(fault.held_again_s).map_or_else(|| Cell::toned("not in time", Tone::Doubtful), Cell::from),
        failed,
    ]
}
