//! Tabulates the probes of a search for the load line.

use plimsoll_measure::line::{Line, Probe, Stage};

use super::{Cell, Table, Tone, left, right};
use crate::units::{exact_rate, percent, percentile};

/// One row a probe, in the order in which they were tried.
pub(crate) fn probes(line: &Line) -> Table {
    let columns = vec![
        left("stage"),
        right("asked"),
        right("done"),
        right("achieved"),
        right("p50"),
        right("p99"),
        right("max"),
        left("result"),
    ];
    let rows = line.probes.iter().map(row).collect();
    Table { title: format!("Probes, in {}", line.unit), columns, rows, flexible: 7 }
}

fn row(probe: &Probe) -> Vec<Cell> {
    let latency = &probe.response_ns;
    vec![
        stage(probe.stage).into(),
        exact_rate(probe.rate).into(),
        exact_rate(probe.achieved).into(),
        percent(probe.achieved_ratio).into(),
        percentile(latency.p50, latency).into(),
        percentile(latency.p99, latency).into(),
        percentile(latency.max, latency).into(),
        result(probe),
    ]
}

/// Why a rate was tried, in a word.
pub(crate) fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::WarmUp => "warm-up",
        Stage::Climb => "climb",
        Stage::Bisect => "bisect",
        Stage::Confirm => "confirm",
    }
}

/// Whether the rate held, and why not.
pub(crate) fn result(probe: &Probe) -> Cell {
    match (probe.stage, probe.held, probe.reasons.as_slice()) {
        (Stage::WarmUp, ..) => Cell::toned("not judged", Tone::Faint),
        (_, true, _) => Cell::toned("held", Tone::Good),
        (_, false, []) => Cell::toned("failed", Tone::Bad),
        (_, false, reasons) => Cell::toned(format!("failed: {}", reasons.join("; ")), Tone::Bad),
    }
}
