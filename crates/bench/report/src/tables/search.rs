//! Tabulates a search: its probes, the candidates for the bottleneck, and the rungs of a ladder.

use plimsoll_measure::ladder::Ladder;
use plimsoll_measure::line::{Candidate, Line, Probe, Stage, Timing, Unchecked};
use plimsoll_measure::run::Bottleneck;

use super::{Cell, Column, Table, Tone, left, right};
use crate::derived::{is_estimate, tail};
use crate::prose::phase;
use crate::units::{NONE, bytes, exact_rate, latency, or_dash, percent, percentile, ratio, three_digits};

/// Bytes in a mebibyte.
const MIB: f64 = 1_048_576.0;

/// One row per probe in the order of the trials, and the soak after them. Older files have no excess.
pub(crate) fn probes(line: &Line) -> Table {
    let (probes, tail) = (line.probes.iter().chain(&line.soak), tail(line));
    let rows = Table::of(format!("Probes, in {}", line.unit), probes)
        .left("stage", |it| if is_estimate(line) { stage(it.stage) } else { older_stage(it.stage) })
        .right("asked", |it| exact_rate(it.rate))
        .right("done", |it| exact_rate(it.achieved))
        .right("achieved", |it| percent(it.achieved_ratio))
        .right("p50", |it| percentile(it.response_ns.p50, &it.response_ns))
        .right(tail.name, |it| percentile((tail.of)(&it.response_ns), &it.response_ns))
        .right("max", |it| percentile(it.response_ns.max, &it.response_ns));
    let has_excess = line.probes.iter().any(|probe| probe.excess.is_some());
    let rows = if has_excess { rows.right("excess", excess) } else { rows };
    rows.left("result", result).wrapped().table()
}

/// The reason for a trial, in a word.
pub(crate) fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::WarmUp => "warm-up",
        Stage::Climb => "climb",
        Stage::Bisect => "bisect",
        Stage::Estimate => "estimate",
        Stage::Reference => "reference",
        Stage::Soak => "soak",
    }
}

/// As [`stage`], for an older file: its searches ended with a confirmation.
fn older_stage(it: Stage) -> &'static str {
    if it == Stage::Estimate { "confirm" } else { stage(it) }
}

/// The share that broke the objective, divided by the share that the objective allows.
fn excess(probe: &Probe) -> String {
    or_dash(probe.excess.filter(|it| it.is_finite()), ratio)
}

/// Whether the rate held, and the reason if it failed.
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
    let first = ladder.rungs.first().map_or(0.0, |rung| rung.throughput / f64::from(rung.writers.max(1)));
    Table::of(format!("Ladder, in {}", ladder.unit), &ladder.rungs)
        .right("writers", |it| Cell::strong(it.writers.to_string()))
        .right(ladder.unit.clone(), |it| exact_rate(it.throughput))
        .flexible()
        .right("of one writer's", |it| {
            format!("{} ×", three_digits(it.throughput / first.max(f64::MIN_POSITIVE)))
        })
        .latencies(|it| &it.response_ns)
        .right("errors", |it| Cell::fault(it.errors))
        .table()
}

/// Candidates that departed from their baseline first, then unmoved ones, then unchecked ones; a row for each reading.
pub(crate) fn candidates(line: &Line) -> Table {
    let departed = line.bottlenecks.iter().map(|it| (it, Cell::toned("departs", Tone::Bad)));
    let unmoved = line.unmoved.iter().map(|it| (it, Cell::toned("unmoved", Tone::Faint)));
    let numbers = vec![right("at the lowest rate that held"), right("at the lowest that failed")];
    readings("Possible bottlenecks".to_owned(), numbers, departed.chain(unmoved), &line.unchecked)
}

/// The time at the limit of every compared candidate, in slow and in calm seconds of the same trials. Empty if no trial has both.
pub(crate) fn timings(line: &Line) -> Option<Table> {
    let compared = line.bottlenecks.iter().chain(&line.unmoved);
    let compared: Vec<_> = compared.filter_map(|it| Some((it, it.timing.as_ref()?))).collect();
    let (_, first) = compared.first()?;
    let title = format!("Time at the limit: {} slow and {} calm seconds", first.slow_s, first.calm_s);
    let table = Table::of(title, compared.iter().copied())
        .left("candidate", |(it, _): (&Candidate, &Timing)| it.name.clone())
        .flexible()
        .right("in slow time", |(_, it)| percent(it.slow))
        .right("in calm time", |(_, it)| percent(it.calm))
        .right("lift", |(_, it)| {
            it.lift.map_or_else(|| NONE.to_owned(), |lift| format!("{} ×", three_digits(lift)))
        })
        .right("explains", |(_, it)| percent(it.explained))
        .right("p", |(_, it)| it.p.map_or_else(|| NONE.to_owned(), |p| format!("{p:.3}")));
    Some(table.table())
}

/// Candidates at their limit first, then those below it, then unchecked ones. A single load has no baseline.
pub(crate) fn at_limit(bottleneck: &Bottleneck) -> Table {
    let limited = bottleneck.at_limit.iter().map(|it| (it, Cell::toned("at its limit", Tone::Bad)));
    let below = bottleneck.below.iter().map(|it| (it, Cell::toned("below it", Tone::Faint)));
    let title = format!("{}: resources and their limits", phase(&bottleneck.phase));
    readings(title, vec![right("measured")], limited.chain(below), &bottleneck.unchecked)
}

/// A row for each reading. Only the first row of a candidate has its name and the finding.
fn readings<'a>(
    title: String,
    numbers: Vec<Column>,
    checked: impl Iterator<Item = (&'a Candidate, Cell)>,
    unchecked: &[Unchecked],
) -> Table {
    let skipped = 2 - numbers.len();
    let rows = checked.flat_map(|(candidate, finding)| {
        candidate.readings.iter().enumerate().map(move |(index, reading)| {
            let [name, finding] = [Cell::from(candidate.name.as_str()), finding.clone()]
                .map(|cell| if index == 0 { cell } else { Cell::default() });
            let numbers = [reading.baseline, reading.knee].map(|it| Cell::from(shown(it, &reading.unit)));
            let numbers = numbers.into_iter().skip(skipped);
            [name, reading.what.as_str().into()].into_iter().chain(numbers).chain([finding]).collect()
        })
    });
    let unseen = |it: &Unchecked| {
        let finding = Cell::toned(format!("not checked: {}", it.reason), Tone::Doubtful);
        let dashes = vec![Cell::from(NONE); 1 + numbers.len()];
        [vec![it.name.as_str().into()], dashes, vec![finding]].concat()
    };
    let rows = rows.chain(unchecked.iter().map(unseen)).collect();
    let columns = [vec![left("candidate"), left("reading")], numbers, vec![left("finding")]].concat();
    Table { title, columns, rows, flexible: 1, wraps: false }
}

fn shown(number: Option<f64>, unit: &str) -> String {
    let Some(number) = number else { return NONE.to_owned() };
    let text = match unit {
        "ms" => return latency((number * 1e6).round().max(0.0) as u64),
        "MiB/s" => return format!("{}/s", bytes((number * MIB).round().max(0.0) as u64)),
        "%" => format!("{number:.0}"),
        _ if number == 0.0 => "0".to_owned(),
        _ => three_digits(number),
    };
    let space = if unit.is_empty() || unit.starts_with('/') { "" } else { " " };
    format!("{text}{space}{unit}")
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::histogram::Latency;
    use plimsoll_measure::line::Reading;

    use super::*;

    fn reading(what: &str, unit: &str, baseline: Option<f64>, knee: Option<f64>) -> Reading {
        Reading { what: what.into(), unit: unit.into(), baseline, knee }
    }

    #[test]
    fn compared_candidates_show_their_time_at_the_limit() {
        let timing = Timing {
            slow_s: 31,
            calm_s: 97,
            slow: 0.87,
            calm: 0.12,
            lift: Some(7.25),
            explained: 0.75,
            p: Some(0.006),
        };
        let never = Timing { lift: None, p: None, slow: 0.0, calm: 0.0, explained: 0.0, ..timing.clone() };
        let candidate = |name: &str, timing| Candidate { name: name.into(), timing, ..Candidate::default() };
        let line = Line {
            bottlenecks: vec![candidate("server CPU", Some(timing))],
            unmoved: vec![candidate("connections", None), candidate("disk", Some(never))],
            ..Line::default()
        };
        let table = timings(&line).unwrap();
        let rows: Vec<Vec<_>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        let expected = [
            ["server CPU", "87 %", "12 %", "7.25 ×", "75 %", "0.006"],
            ["disk", "0 %", "0 %", "–", "0 %", "–"],
        ];
        assert_eq!(rows, expected.map(Vec::from).to_vec());
        assert_eq!(table.title, "Time at the limit: 31 slow and 97 calm seconds");
        assert!(timings(&Line::default()).is_none());
    }

    #[test]
    fn a_single_load_has_one_number_a_reading() {
        let candidate = |name: &str, knee| Candidate {
            name: name.into(),
            readings: vec![reading("busy", "%", None, Some(knee))],
            ..Candidate::default()
        };
        let bottleneck = Bottleneck {
            at_limit: vec![candidate("disk", 97.0)],
            below: vec![candidate("client CPU", 12.0)],
            unchecked: vec![Unchecked { name: "tickets".into(), reason: "not reported".into() }],
            ..Bottleneck::default()
        };
        let table = at_limit(&bottleneck);
        let rows: Vec<Vec<_>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        let expected = [
            ["disk", "busy", "97 %", "at its limit"],
            ["client CPU", "busy", "12 %", "below it"],
            ["tickets", "–", "–", "not checked: not reported"],
        ];
        assert_eq!((rows, table.columns.len()), (expected.map(Vec::from).to_vec(), 4));
    }

    #[test]
    fn a_probe_shows_its_excess_and_an_older_one_its_confirmation() {
        let probe = |stage, excess| Probe { stage, excess, held: true, ..Probe::default() };
        let line = |confidence, probes| Line { confidence, probes, ..Line::default() };
        let cells = |line: &Line| {
            let table = probes(line);
            let cells = table.rows.iter().map(|row| [row[0].text.clone(), row[row.len() - 2].text.clone()]);
            (table.columns.len(), cells.collect::<Vec<_>>())
        };
        let new = [(Stage::WarmUp, None), (Stage::Estimate, Some(0.9996)), (Stage::Reference, Some(2.5))];
        let new = line(Some(0.9), new.map(|(stage, excess)| probe(stage, excess)).to_vec());
        let new = Line { soak: Some(probe(Stage::Soak, Some(0.25))), ..new };
        let rows = [["warm-up", "–"], ["estimate", "0.999"], ["reference", "2.50"], ["soak", "0.250"]];
        assert_eq!(cells(&new), (9, rows.map(|row| row.map(str::to_owned)).to_vec()));
        let older = line(None, vec![probe(Stage::Estimate, None)]);
        assert_eq!(cells(&older), (8, vec![["confirm".to_owned(), "–".to_owned()]]));
    }

    #[test]
    fn a_search_of_few_operations_shows_a_percentile_that_they_support() {
        let probe = |p99| {
            let response_ns = Latency { count: 752, p95: Some(7_000_000), p99, ..Latency::default() };
            Probe { stage: Stage::Estimate, response_ns, ..Probe::default() }
        };
        let high = |p99s: &[Option<u64>]| {
            let table =
                probes(&Line { probes: p99s.iter().map(|p99| probe(*p99)).collect(), ..Line::default() });
            (table.columns[5].name.to_string(), table.rows[0][5].text.clone())
        };
        assert_eq!(high(&[None, None, Some(9_000_000)]), ("p95".into(), "7.00 ms".into()));
        assert_eq!(high(&[None, Some(9_000_000)]), ("p99".into(), "n too small".into()));
    }

    #[test]
    fn every_reading_has_a_row_and_unchecked_candidates_are_listed() {
        let candidate =
            |name: &str, readings| Candidate { name: name.into(), readings, ..Candidate::default() };
        let line = Line {
            bottlenecks: vec![candidate(
                "journal sync",
                vec![
                    reading("mean journal sync", "ms", None, Some(12.34)),
                    reading("journal syncs", "/s", Some(100.0), Some(48.0)),
                ],
            )],
            unmoved: vec![candidate(
                "disk",
                vec![
                    reading("disk busy", "%", Some(3.2), Some(7.9)),
                    reading("written by the server", "MiB/s", Some(0.5), Some(12.0)),
                ],
            )],
            unchecked: vec![Unchecked { name: "tickets".into(), reason: "not reported".into() }],
            ..Line::default()
        };
        let rows = candidates(&line).rows;
        let rows: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        let expected = [
            ["journal sync", "mean journal sync", "–", "12.3 ms", "departs"],
            ["", "journal syncs", "100/s", "48.0/s", ""],
            ["disk", "disk busy", "3 %", "8 %", "unmoved"],
            ["", "written by the server", "512 KiB/s", "12.0 MiB/s", ""],
            ["tickets", "–", "–", "–", "not checked: not reported"],
        ];
        assert_eq!(rows, expected);
    }
}
