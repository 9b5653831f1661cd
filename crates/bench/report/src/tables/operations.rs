//! Tabulates the latencies and rates of each operation, and the share of each server.

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::run::{Operation, Run, ServerShare};

use super::{Cell, Table, Tone, left, right};
use crate::derived::{ACHIEVED_MIN, classes};
use crate::units::{bytes, counted_in, exact, exact_rate, or_dash, percent, percentile, sent_in};

/// Response and service time of every operation, and the response time of those that failed.
pub(crate) fn latencies(run: &Run) -> Table {
    let columns = vec![
        left("operation"),
        left("time"),
        right("count"),
        right(counted_in(run).1),
        right("p50"),
        right("p95"),
        right("p99"),
        right("p99.9"),
        right("max"),
    ];
    let rows = run.operations.iter().flat_map(|(name, operation)| rows(name, operation)).collect();
    let title = if run.line.is_some() { "Operations, over the whole search" } else { "Operations" };
    Table { title: title.to_owned(), columns, rows, flexible: 0 }
}

fn rows(name: &str, operation: &Operation) -> Vec<Vec<Cell>> {
    let rate = exact_rate(operation.documents_per_s);
    let response = row(Cell::toned(name, Tone::Strong), "response", rate, &operation.response_ns);
    let service = row(Cell::default(), "service", String::new(), &operation.service_ns);
    let failed = (operation.failed_response_ns.count > 0)
        .then(|| row(Cell::default(), "failed", String::new(), &operation.failed_response_ns));
    [Some(response), Some(service), failed].into_iter().flatten().collect()
}

fn row(name: Cell, time: &str, rate: String, latency: &Latency) -> Vec<Cell> {
    let percentiles = [latency.p50, latency.p95, latency.p99, latency.p99_9, latency.max];
    let start = [name, Cell::toned(time, Tone::Faint), exact(latency.count).into(), rate.into()];
    start.into_iter().chain(percentiles.map(|ns| percentile(ns, latency).into())).collect()
}

/// The completed share of every operation, and its evenness.
pub(crate) fn rates(run: &Run) -> Table {
    let columns = vec![
        left("operation"),
        right("due"),
        right("acknowledged"),
        right("achieved"),
        left("errors"),
        right(sent_in(run).rate),
        right(format!("steady {}", counted_in(run).1)),
        right("slow second (p1)"),
        right("median second"),
        right("best second"),
        right("sent"),
        right("received"),
    ];
    let rows = run.operations.iter().map(|(name, operation)| rate(name, operation)).collect();
    Table { title: "Rates".to_owned(), columns, rows, flexible: 0 }
}

fn rate(name: &str, operation: &Operation) -> Vec<Cell> {
    let seconds = |pick: fn(&plimsoll_measure::run::SecondsSpread) -> f64| {
        or_dash(operation.documents_in_a_second, |spread| exact_rate(pick(&spread)))
    };
    vec![
        Cell::toned(name, Tone::Strong),
        exact(operation.due).into(),
        exact(operation.count).into(),
        achieved(operation),
        classes(&operation.errors).map_or_else(|| "none".into(), |(_, list)| Cell::toned(list, Tone::Bad)),
        exact_rate(operation.rate_per_s).into(),
        or_dash(operation.steady_documents_per_s, exact_rate).into(),
        seconds(|spread| spread.p1).into(),
        seconds(|spread| spread.p50).into(),
        seconds(|spread| spread.max).into(),
        bytes(operation.bytes_sent).into(),
        bytes(operation.bytes_received).into(),
    ]
}

fn achieved(operation: &Operation) -> Cell {
    match operation.achieved {
        None => "closed".into(),
        Some(share) if share < ACHIEVED_MIN => Cell::toned(percent(share), Tone::Bad),
        Some(share) => percent(share).into(),
    }
}

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
    let rows = run.spread.iter().map(|it| share(it, even)).collect();
    Table { title: "Servers".to_owned(), columns, rows, flexible: 6 }
}

fn share(share: &ServerShare, even: f64) -> Vec<Cell> {
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
