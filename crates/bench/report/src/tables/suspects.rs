//! Tabulates possible bottlenecks at the baseline and at the knee.

use plimsoll_measure::line::{Line, NotSeen, Reading, Suspect};
use plimsoll_measure::run::Bottleneck;

use super::{Cell, Table, Tone, left, right};
use crate::prose::phase;
use crate::units::{NONE, bytes, latency, three_digits};

/// Bytes in a mebibyte.
const MIB: f64 = 1_048_576.0;
/// The column of the baseline.
const BASELINE: usize = 2;

/// Departed resources first, then unmoved ones, then unchecked ones; a row for each reading.
pub(crate) fn suspects(line: &Line) -> Table {
    let columns = vec![
        left("suspect"),
        left("reading"),
        right("at the lowest rate that held"),
        right("at the lowest that failed"),
        left("finding"),
    ];
    let departed = line.bottlenecks.iter().map(|it| (it, Cell::toned("departs", Tone::Bad)));
    let unmoved = line.unmoved.iter().map(|it| (it, Cell::toned("unmoved", Tone::Faint)));
    let seen = departed.chain(unmoved).flat_map(|(suspect, finding)| rows(suspect, &finding));
    let rows = seen.chain(line.not_seen.iter().map(unseen)).collect();
    Table { title: "Possible bottlenecks".to_owned(), columns, rows, flexible: 1 }
}

/// Resources at their limit first, then those below it, then unchecked ones.
pub(crate) fn at_limit(bottleneck: &Bottleneck) -> Table {
    let columns = vec![left("suspect"), left("reading"), right("measured"), left("finding")];
    let limited = bottleneck.at_limit.iter().map(|it| (it, Cell::toned("at its limit", Tone::Bad)));
    let below = bottleneck.below.iter().map(|it| (it, Cell::toned("below it", Tone::Faint)));
    let seen = limited.chain(below).flat_map(|(suspect, finding)| rows(suspect, &finding));
    let mut rows: Vec<_> = seen.chain(bottleneck.not_seen.iter().map(unseen)).collect();
    // A single load has no baseline.
    rows.iter_mut().for_each(|row| drop(row.remove(BASELINE)));
    let title = format!("{}: resources and their limits", phase(&bottleneck.phase));
    Table { title, columns, rows, flexible: 1 }
}

/// Only the first row has the name and the finding.
fn rows(suspect: &Suspect, finding: &Cell) -> Vec<Vec<Cell>> {
    let row = |(index, reading): (usize, &Reading)| {
        let [name, finding] = [Cell::from(suspect.name.as_str()), finding.clone()]
            .map(|cell| if index == 0 { cell } else { Cell::default() });
        let [baseline, knee] = [reading.baseline, reading.knee].map(|number| shown(number, &reading.unit));
        vec![name, reading.what.as_str().into(), baseline.into(), knee.into(), finding]
    };
    suspect.readings.iter().enumerate().map(row).collect()
}

fn unseen(suspect: &NotSeen) -> Vec<Cell> {
    let finding = Cell::toned(format!("not checked: {}", suspect.reason), Tone::Doubtful);
    vec![suspect.name.as_str().into(), NONE.into(), NONE.into(), NONE.into(), finding]
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
    use super::*;

    fn reading(what: &str, unit: &str, baseline: Option<f64>, knee: Option<f64>) -> Reading {
        Reading { what: what.into(), unit: unit.into(), baseline, knee }
    }

    #[test]
    fn a_load_by_itself_has_one_number_a_reading() {
        let suspect = |name: &str, knee| Suspect {
            name: name.into(),
            evidence: String::new(),
            readings: vec![reading("busy", "%", None, Some(knee))],
        };
        let bottleneck = Bottleneck {
            at_limit: vec![suspect("disk", 97.0)],
            below: vec![suspect("client CPU", 12.0)],
            not_seen: vec![NotSeen { name: "tickets".into(), reason: "not reported".into() }],
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
    fn every_reading_has_a_row_and_what_was_not_seen_is_said() {
        let suspect = |name: &str, readings| Suspect { name: name.into(), evidence: String::new(), readings };
        let line = Line {
            bottlenecks: vec![suspect(
                "journal sync",
                vec![
                    reading("mean journal sync", "ms", None, Some(12.34)),
                    reading("journal syncs", "/s", Some(100.0), Some(48.0)),
                ],
            )],
            unmoved: vec![suspect(
                "disk",
                vec![
                    reading("disk busy", "%", Some(3.2), Some(7.9)),
                    reading("written by the server", "MiB/s", Some(0.5), Some(12.0)),
                ],
            )],
            not_seen: vec![NotSeen { name: "tickets".into(), reason: "not reported".into() }],
            ..Line::default()
        };
        let rows = suspects(&line).rows;
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
