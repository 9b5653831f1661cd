//! Tabulates the operations of a run: latencies, rates, answers, expectations, faults, and the share of each server.

use plimsoll_measure::histogram::Latency;
use plimsoll_measure::run::{Answers, Expectation, FaultFacts, Operation, Run, SecondsSpread};

use super::{Cell, Table, Tone};
use crate::derived::{ACHIEVED_MIN, classes, fault_at_s};
use crate::expectation::measured;
use crate::units::{
    NONE, bytes, counted_in, duration, exact, exact_rate, or_dash, percent, percentile, ranked, sent_in,
};

/// The name of the response time of all operations, in which failed operations count as infinitely slow.
const WITH_FAILURES: &str = "with failures";

/// Response and service time of every operation, and the response time of those that failed.
pub(crate) fn latencies(run: &Run) -> Table {
    let title = if run.line.is_some() { "Operations, over the whole search" } else { "Operations" };
    Table::of(title, run.operations.iter().flat_map(times))
        .left("operation", |(name, ..)| Cell::strong(name))
        .left("time", |(_, time, ..)| Cell::toned(time, Tone::Faint))
        .right("count", |(.., ns)| exact(ns.count))
        .right(counted_in(run).1, |(_, _, rate, _)| rate.map_or_else(String::new, exact_rate))
        .right("p50", |(.., ns)| ranked(ns.p50, 50.0, ns))
        .right("p95", |(.., ns)| ranked(ns.p95, 95.0, ns))
        .right("p99", |(.., ns)| ranked(ns.p99, 99.0, ns))
        .right("p99.9", |(.., ns)| ranked(ns.p99_9, 99.9, ns))
        .right(
            "max",
            |(_, time, _, ns)| if time == WITH_FAILURES { "none".into() } else { percentile(ns.max, ns) },
        )
        .table()
}

/// The kinds of time of an operation; only the first has the name and the rate.
fn times<'a>(
    (name, it): (&'a String, &'a Operation),
) -> impl Iterator<Item = (&'a str, &'static str, Option<f64>, &'a Latency)> {
    let shown = |ns: &Latency| {
        [(ns.p50, 50.0), (ns.p95, 95.0), (ns.p99, 99.0), (ns.p99_9, 99.9)]
            .map(|(at, rank)| ranked(at, rank, ns))
    };
    let all = it.response_with_failures_ns.as_ref().filter(|all| shown(all) != shown(&it.response_ns));
    let all = all.map(|all| ("", WITH_FAILURES, None, all));
    let failed = (it.failed_response_ns.count > 0).then_some(("", "failed", None, &it.failed_response_ns));
    [
        Some((name.as_str(), "response", Some(it.documents_per_s), &it.response_ns)),
        all,
        Some(("", "service", None, &it.service_ns)),
        failed,
    ]
    .into_iter()
    .flatten()
}

/// The completed share of every operation, and its evenness.
pub(crate) fn rates(run: &Run) -> Table {
    let second = |it: &Operation, pick: fn(SecondsSpread) -> f64| {
        or_dash(it.documents_in_a_second, |spread| exact_rate(pick(spread)))
    };
    Table::of("Rates", &run.operations)
        .left("operation", |(name, _)| Cell::strong(name))
        .right("due", |(_, it)| exact(it.due))
        .right("acknowledged", |(_, it)| exact(it.count))
        .right("achieved", |(_, it)| achieved(it))
        .left("errors", |(_, it)| {
            classes(&it.errors).map_or_else(|| "none".into(), |(_, list)| Cell::toned(list, Tone::Bad))
        })
        .right(sent_in(run).rate, |(_, it)| exact_rate(it.rate_per_s))
        .right(format!("steady {}", counted_in(run).1), |(_, it)| {
            or_dash(it.steady_documents_per_s, exact_rate)
        })
        .right("slow second (p1)", |(_, it)| second(it, |spread| spread.p1))
        .right("median second", |(_, it)| second(it, |spread| spread.p50))
        .right("best second", |(_, it)| second(it, |spread| spread.max))
        .right("sent", |(_, it)| bytes(it.bytes_sent))
        .right("received", |(_, it)| bytes(it.bytes_received))
        .table()
}

fn achieved(operation: &Operation) -> Cell {
    match operation.achieved {
        None => "closed".into(),
        Some(share) if share < ACHIEVED_MIN => Cell::toned(percent(share), Tone::Bad),
        Some(share) => percent(share).into(),
    }
}

/// A row for each server; nothing for a single server.
pub(crate) fn spread(run: &Run) -> Table {
    let total: u64 = run.spread.iter().map(|share| share.operations).sum();
    let even = (total as f64 / run.spread.len().max(1) as f64).max(1.0);
    Table::of("Servers", &run.spread)
        .left("server", |it| Cell::strong(&it.address))
        .right("operations", |it| exact(it.operations))
        .right("of an even share", |it| percent(it.operations as f64 / even))
        .right("documents", |it| exact(it.documents))
        .right("failed", |it| Cell::fault(it.failed))
        .right("passed over", |it| exact(it.skipped))
        .left("away", |it| {
            it.unavailable.as_ref().map_or_else(|| "never".into(), |why| Cell::toned(why, Tone::Bad))
        })
        .wrapped()
        .table()
}

/// A row for each status and each check of an operation; nothing without a service.
pub(crate) fn answers(run: &Run) -> Table {
    let rows: Vec<_> = run.answers.iter().flat_map(answered).collect();
    Table::of("Answers", &rows)
        .left("operation", |(name, ..)| Cell::strong(*name))
        .left("answer", |(_, answer, ..)| answer)
        .flexible()
        .right("held", |(.., held, _)| exact(*held))
        .right("failed", |(.., failed)| failed.map_or_else(Cell::default, Cell::fault))
        .table()
}

/// The statuses and the checks of an operation; only the first has the name.
fn answered(answers: &Answers) -> Vec<(&str, String, u64, Option<u64>)> {
    let statuses = answers.statuses.iter().map(|(status, count)| {
        let name = if *status == 0 { "none".to_owned() } else { status.to_string() };
        ("", name, *count, None)
    });
    let checks = answers.checks.iter();
    let checks = checks.map(|it| ("", format!("check {}", it.name), it.passed, Some(it.failed)));
    let mut rows: Vec<_> = statuses.chain(checks).collect();
    rows.iter_mut().take(1).for_each(|row| row.0 = &answers.operation);
    rows
}

/// A row for each expectation.
pub(crate) fn expectations(run: &Run) -> Table {
    Table::of("Expectations", &run.expectations)
        .left("expectation", |it| &it.metric)
        .left("bound", |it| &it.expression)
        .right("measured", measured)
        .left("result", held)
        .wrapped()
        .table()
}

fn held(expectation: &Expectation) -> Cell {
    match (expectation.held, &expectation.reason) {
        (true, _) => Cell::toned("held", Tone::Good),
        (false, None) => Cell::toned("failed", Tone::Bad),
        (false, Some(reason)) => Cell::toned(format!("failed: {reason}"), Tone::Bad),
    }
}

/// A row for each fault at its moment in its phase, as in scenarios and the live view.
pub(crate) fn faults(run: &Run) -> Table {
    let since = |it: &FaultFacts, at_s: Option<f64>| at_s.map(|at_s| Cell::from(duration(at_s - it.from_s)));
    let never = |word: &str| Cell::toned(word, Tone::Bad);
    Table::of("Faults", &run.faults)
        .left("fault", |it| Cell::strong(&it.name))
        .right(if run.phases.len() > 1 { "at, in its phase" } else { "at" }, |it| {
            duration(fault_at_s(run, it))
        })
        .right("lasted", |it| since(it, it.to_s).unwrap_or_else(|| never("not undone")))
        .right("silent for", |it| if it.outage_s > 0.0 { duration(it.outage_s) } else { NONE.to_owned() })
        .right("success after", |it| {
            let none = || if it.outage_s > 0.0 { never("not") } else { NONE.into() };
            since(it, it.first_success_s).unwrap_or_else(none)
        })
        .right("held after", |it| {
            since(it, it.held_again_s).unwrap_or_else(|| Cell::toned("not in time", Tone::Doubtful))
        })
        .left("failed", |it| match &it.error {
            Some(error) => never(error),
            None => classes(&it.errors).map_or_else(String::new, |(_, list)| list).into(),
        })
        .wrapped()
        .table()
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

    fn rows(p99_with_failures: Option<u64>) -> Vec<&'static str> {
        let response_ns = Latency { count: 5000, p99: Some(41_000_000), ..Latency::default() };
        let all = Latency { count: 5001, p99: p99_with_failures, ..response_ns.clone() };
        let response_with_failures_ns = Some(all);
        let operation = Operation { response_ns, response_with_failures_ns, ..Operation::default() };
        times((&String::new(), &operation)).map(|(_, time, ..)| time).collect()
    }

    #[test]
    fn failures_have_a_row_if_they_change_a_percentile() {
        assert_eq!(rows(Some(41_000_001)), ["response", "service"]);
        assert_eq!(rows(Some(42_000_000)), ["response", WITH_FAILURES, "service"]);
        assert_eq!(rows(None), ["response", WITH_FAILURES, "service"]);
    }
}
