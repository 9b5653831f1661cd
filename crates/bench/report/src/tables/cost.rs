//! Tabulates the cost of a run and the accuracy of the tool.

use plimsoll_measure::run::{Client, Operation, Run};

use super::{Cell, Table, Tone};
use crate::derived::is_client_limited;
use crate::units::{
    Quantile, bytes, counted, counted_in, exact, exact_rate, latency, micros, named_percentile, percent,
    percentile, reported, sent_in, three_digits,
};

/// CPU and memory of the tool and of the server.
pub(crate) fn cost(run: &Run) -> Table {
    let (client, server) = (&run.client, &run.server_cost);
    let (sent, each) = (sent_in(run).one, counted_in(run).0.trim_end_matches('s'));
    let us = |us: Option<f64>| reported(us, micros);
    let ours = (client.cpu_us_per_operation, client.cpu_us_per_document);
    let theirs = (server.cpu_us_per_operation, server.cpu_us_per_document);
    let cores = reported(server.cores, |cores| format!("{} cores", three_digits(cores)));
    let busiest = format!("{} of a core, busiest worker", percent(client.cpu_busiest_worker));
    let memory = [bytes(client.rss_bytes_max), reported(server.rss_bytes_max, bytes)];
    let table =
        Table::of("Cost", [("Plimsoll", ours, &busiest, &memory[0]), ("server", theirs, &cores, &memory[1])])
            .left("", |(name, ..)| Cell::strong(name))
            .right(format!("CPU/{sent}"), |(_, (each, _), ..)| us(each));
    // If an operation and its counted unit have one name, one column suffices.
    let table =
        if sent == each { table } else { table.right(format!("CPU/{each}"), |(_, (_, each), ..)| us(each)) };
    table.right("CPU", |(_, _, cpu, _)| cpu).right("memory", |(.., memory)| memory).table()
}

/// The traffic of an operation and a document.
pub(crate) fn traffic(run: &Run) -> Table {
    let (client, server) = (&run.client, &run.server_cost);
    let each = counted_in(run).0.trim_end_matches('s');
    let per_document =
        |count: Option<f64>| reported(count, |count| format!("{} a {each}", bytes(count.round() as u64)));
    let switches = reported(client.switches_per_operation, |count| {
        format!("{} {}", three_digits(count), sent_in(run).each)
    });
    Table::of_facts(
        "Traffic",
        vec![
            ("bytes on the wire", Some(per_document(client.wire_bytes_per_document).into())),
            ("context switches", Some(switches.into())),
            ("written by the server", Some(per_document(server.written_bytes_per_document).into())),
            ("to its journal", Some(per_document(server.journal_bytes_per_document).into())),
        ],
    )
}

/// Evidence for and against the tool's accuracy.
pub(crate) fn accuracy(run: &Run) -> Table {
    let client = &run.client;
    let connections =
        [counted(client.connections.into(), "connection"), counted(client.workers.into(), "worker")]
            .join(", ");
    let pacing = if client.spin { "timer and a short spin" } else { "timer" };
    Table::of_facts(
        "Accuracy of the tool",
        vec![
            ("headroom", Some(headroom(run))),
            ("latency floor", floor(client)),
            ("wake error", wake(run).map(Cell::from)),
            ("connections", Some(connections.into())),
            ("reconnects", Some(exact(client.reconnects).into())),
            ("pacing", Some(pacing.into())),
            ("ping", pings(client).map(Cell::from)),
            ("null server", nulls(run).map(Cell::from)),
        ],
    )
}

fn headroom(run: &Run) -> Cell {
    let client = &run.client;
    let ceiling = client.null_server_per_s;
    let ceiling = ceiling
        .map(|ceiling| format!(" ({} {} against the null server)", exact_rate(ceiling), sent_in(run).rate));
    let (words, tone) = match client.headroom {
        None if client.limited => ("not measured, client-limited".to_owned(), Tone::Bad),
        None if ceiling.is_some() => {
            (format!("not assessed: too few {} in too short a time", sent_in(run).many), Tone::Doubtful)
        }
        None => ("not measured".to_owned(), Tone::Doubtful),
        Some(headroom) => {
            let (words, tone) =
                if is_client_limited(client) { (", client-limited", Tone::Bad) } else { ("", Tone::Normal) };
            (format!("{} times{words}{}", three_digits(headroom), ceiling.unwrap_or_default()), tone)
        }
    };
    Cell::toned(words, tone)
}

/// The tool's own response times with the same open load.
fn floor(client: &Client) -> Option<Cell> {
    let floor = client.floor_ns.as_ref()?;
    let times = [("p50", floor.p50), ("p95", floor.p95), ("p99", floor.p99)];
    let known = times.iter().filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", latency(ns))));
    let words = format!("{} against the null server", known.collect::<Vec<_>>().join(", "));
    let tone = if client.high_floor().is_some() { Tone::Bad } else { Tone::Normal };
    floor.p50.is_some().then(|| Cell::toned(words, tone))
}

/// The worst wake error of all paced operations. In a closed loop nothing is due, so nothing can be late.
fn wake(run: &Run) -> Option<String> {
    let sent = || run.operations.values().filter(|operation| operation.wake_ns.count > 0);
    sent().next()?;
    let paced = sent().filter(|operation| operation.achieved.is_some());
    if paced.clone().next().is_none() {
        let has_due_times = run.phases.iter().any(|phase| phase.open);
        let reason = if has_due_times { "too few operations were due" } else { "closed loop" };
        return Some(format!("n/a ({reason})"));
    }
    let worst = paced.max_by_key(|operation: &&Operation| (operation.wake_ns.p99, operation.wake_ns.max))?;
    let wake = &worst.wake_ns;
    let [p50, p99] = [Quantile::P50, Quantile::P99].map(|it| named_percentile(it, wake, sent_in(run).many));
    Some(format!("{p50}, {p99}, max {}", percentile(wake.max, wake)))
}

fn nulls(run: &Run) -> Option<String> {
    let rates: Vec<_> = run.client.calibration_null_per_s.iter().map(|rate| exact_rate(*rate)).collect();
    let unit = sent_in(run).rate;
    (!rates.is_empty()).then(|| format!("{} {unit} ({} the load)", rates.join(", "), sides(rates.len())))
}

fn pings(client: &Client) -> Option<String> {
    let pings: Vec<_> = client.calibration_ping_ns.iter().map(|ns| latency(*ns)).collect();
    let medians = if pings.len() == 1 { "median" } else { "medians" };
    (!pings.is_empty()).then(|| format!("{} ({medians} {} the load)", pings.join(", "), sides(pings.len())))
}

/// The moments of the calibration. A load that ended early has no calibration after it.
const fn sides(looks: usize) -> &'static str {
    if looks == 1 { "before" } else { "before and after" }
}
