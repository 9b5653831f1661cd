//! Tabulates the probes of a search and the rungs of a ladder.

use plimsoll_measure::ladder::{Ladder, Rung};
use plimsoll_measure::line::{Line, Probe, Stage};

use super::{Cell, Table, Tone, left, right};
use crate::units::{exact_rate, percent, percentile, three_digits};

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

/// A row for each rung.
pub(crate) fn ladder(ladder: &Ladder) -> Table {
    let columns = vec![
        right("writers"),
        right(ladder.unit.clone()),
        right("of one writer's"),
        right("p50"),
        right("p99"),
        right("max"),
        right("errors"),
    ];
    let first = ladder.rungs.first().map_or(0.0, |rung| rung.throughput / f64::from(rung.writers.max(1)));
    let row = |rung: &Rung| {
        let latency = &rung.response_ns;
        vec![
            Cell::toned(rung.writers.to_string(), Tone::Strong),
            exact_rate(rung.throughput).into(),
            format!("{} ×", three_digits(rung.throughput / first.max(f64::MIN_POSITIVE))).into(),
            percentile(latency.p50, latency).into(),
            percentile(latency.p99, latency).into(),
            percentile(latency.max, latency).into(),
            Cell::fault(rung.errors),
        ]
    };
    let rows = ladder.rungs.iter().map(row).collect();
    Table { title: format!("Ladder, in {}", ladder.unit), columns, rows, flexible: 1 }
}
