//! Tabulates throughput at rising concurrency.

use plimsoll_measure::ladder::Ladder;

use super::{Cell, Table, Tone, right};
use crate::units::{exact_rate, percentile, three_digits};

/// One row a rung.
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
    let row = |rung: &plimsoll_measure::ladder::Rung| {
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
