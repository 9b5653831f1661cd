//! What our embedder is to reach, and whether it does: beside Python's ONNX Runtime with the same int8 file.

use plimsoll_measure::matrix::Spread;

use crate::Failure;
use crate::subject::{File, Label, Who};
use crate::table::{Rate, Table};
use crate::workload;

/// So many times as fast.
const TIMES: f64 = 1.5;

/// A goal, and what was measured.
struct Held {
    /// By the clock.
    by_clock: Spread,
    /// By the CPU time that the processes used.
    by_cpu: Spread,
    /// Rounds in which both reached it, and rounds.
    rounds: (usize, usize),
}

/// Prints the goal of every int8 file, for every workload.
pub(crate) fn print(table: &Table) {
    println!("\nGoal: {TIMES} times Python with the same int8 file, by the clock and by CPU time:");
    let rows = (0..table.labels().len()).filter(|row| is_held(table.labels()[*row]));
    let held: Vec<String> = rows.flat_map(|row| lines(table, row)).collect();
    if held.is_empty() {
        println!("  not measured: there is no Python to hold it beside");
    }
    held.iter().for_each(|line| println!("  {line}"));
}

/// The goal is what a pipeline does: batches as it makes them.
fn is_held(label: Label) -> bool {
    label.who == Who::Plimsoll && label.file.is_int8()
}

fn lines(table: &Table, row: usize) -> Vec<String> {
    let Some(python) = table.python_with_file_of(row) else { return Vec::new() };
    let columns = table.columns().iter().enumerate();
    let line = |(column, name): (usize, &String)| {
        let Held { by_clock, by_cpu, rounds: (held, rounds) } =
            hold(table.rates(row, column), table.rates(python, column));
        let verdict = if by_clock.median >= TIMES && by_cpu.median >= TIMES { "met" } else { "missed" };
        format!(
            "{:<28} {name:<36} {:.2} ({:.2} to {:.2}), by CPU time {:.2}: {verdict}; it held in {held} of {rounds} rounds",
            table.labels()[row],
            by_clock.median,
            by_clock.min,
            by_clock.max,
            by_cpu.median,
        )
    };
    columns.map(line).collect()
}

/// Round by round.
fn hold(ours: &[Rate], others: &[Rate]) -> Held {
    let pairs = || ours.iter().zip(others);
    let by_clock: Vec<f64> = pairs().map(|(ours, other)| ours.per_s / other.per_s).collect();
    let by_cpu: Vec<f64> = pairs().map(|(ours, other)| ours.per_cpu_s / other.per_cpu_s).collect();
    let both = by_clock.iter().zip(&by_cpu).filter(|(clock, cpu)| **clock >= TIMES && **cpu >= TIMES);
    Held {
        rounds: (both.count(), by_clock.len()),
        by_clock: Spread::of(by_clock).unwrap_or(Spread::NONE),
        by_cpu: Spread::of(by_cpu).unwrap_or(Spread::NONE),
    }
}

/// What follows from rates that are known: a test runs this before it measures anything.
pub(crate) fn check() -> Result<(), Failure> {
    let label = |who, file| Label { who, file };
    let labels = vec![
        label(Who::Python, File::PublishedInt8),
        label(Who::Python, File::OurInt8),
        label(Who::Plimsoll, File::OurInt8),
    ];
    let mut table = Table::new(labels, &workload::all());
    for (published, same, ours) in [(10.0, 20.0, 40.0), (10.0, 20.0, 28.0), (1.0, 2.0, 3.2)] {
        for (row, rate) in [published, same, ours].into_iter().enumerate() {
            table.add(row, 0, Rate { per_s: rate, per_cpu_s: rate });
        }
    }
    let line = lines(&table, 2).swap_remove(0);
    // 2, 1.4 and 1.6 times Python with the same file; with the published one it would be met in every round.
    let told = line.contains("1.60 (1.40 to 2.00)") && line.contains(": met; it held in 2 of 3 rounds");
    if told {
        Ok(())
    } else {
        Err(format!("a goal is held beside the same file, round by round, not {line:?}").into())
    }
}
