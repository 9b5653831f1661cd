//! Compares Plimsoll's embedder with its goal: a multiple of Python's ONNX Runtime with the same int8 file.

use plimsoll_measure::matrix::Spread;

use crate::Failure;
use crate::subject::{Embedding, File, Label};
use crate::table::{Rate, Table};
use crate::workload;

/// The required ratio of the rates.
const TIMES: f64 = 1.5;

/// A goal and its measurements.
struct GoalResult {
    /// The ratio by elapsed time.
    by_clock: Spread,
    /// The ratio by CPU time.
    by_cpu: Spread,
    /// The rounds in which both ratios reached the goal, and all rounds.
    rounds: (usize, usize),
}

/// Prints the goal of every int8 file, for every workload.
pub(crate) fn print(table: &Table) {
    println!("\nGoal: {TIMES} times Python with the same int8 file, by the clock and by CPU time:");
    let rows = (0..table.labels().len()).filter(|row| has_goal(table.labels()[*row]));
    let held: Vec<String> = rows.flat_map(|row| lines(table, row)).collect();
    if held.is_empty() {
        println!("  not measured: no Python to compare with");
    }
    held.iter().for_each(|line| println!("  {line}"));
}

/// Whether a row has a goal: Plimsoll with an int8 file, in batches as a pipeline makes them.
fn has_goal(label: Label) -> bool {
    label.embedding == Embedding::Plimsoll && label.file.is_int8()
}

fn lines(table: &Table, row: usize) -> Vec<String> {
    let Some(python) = table.python_with_file_of(row) else { return Vec::new() };
    let columns = table.columns().iter().enumerate();
    let line = |(column, name): (usize, &String)| {
        let GoalResult { by_clock, by_cpu, rounds: (held, rounds) } =
            hold(table.rates(row, column), table.rates(python, column));
        let verdict = if by_clock.median >= TIMES && by_cpu.median >= TIMES { "met" } else { "missed" };
        format!(
            "{:<28} {name:<36} {:.2} ({:.2} to {:.2}), by CPU time {:.2}: {verdict}; reached in {held} of {rounds} rounds",
            table.labels()[row],
            by_clock.median,
            by_clock.min,
            by_clock.max,
            by_cpu.median,
        )
    };
    columns.map(line).collect()
}

/// Compares the rates round by round.
fn hold(ours: &[Rate], others: &[Rate]) -> GoalResult {
    let pairs = || ours.iter().zip(others);
    let by_clock: Vec<f64> = pairs().map(|(ours, other)| ours.per_s / other.per_s).collect();
    let by_cpu: Vec<f64> = pairs().map(|(ours, other)| ours.per_cpu_s / other.per_cpu_s).collect();
    let both = by_clock.iter().zip(&by_cpu).filter(|(clock, cpu)| **clock >= TIMES && **cpu >= TIMES);
    GoalResult {
        rounds: (both.count(), by_clock.len()),
        by_clock: Spread::of(by_clock).unwrap_or(Spread::NONE),
        by_cpu: Spread::of(by_cpu).unwrap_or(Spread::NONE),
    }
}

/// Checks the comparison with known rates; a test runs this before it measures.
pub(crate) fn check() -> Result<(), Failure> {
    let label = |embedding, file| Label { embedding, file };
    let labels = vec![
        label(Embedding::Python, File::PublishedInt8),
        label(Embedding::Python, File::OurInt8),
        label(Embedding::Plimsoll, File::OurInt8),
    ];
    let mut table = Table::new(labels, &workload::all());
    for (published, same, ours) in [(10.0, 20.0, 40.0), (10.0, 20.0, 28.0), (1.0, 2.0, 3.2)] {
        for (row, rate) in [published, same, ours].into_iter().enumerate() {
            table.add(row, 0, Rate { per_s: rate, per_cpu_s: rate });
        }
    }
    let line = lines(&table, 2).swap_remove(0);
    // 2, 1.4 and 1.6 times Python with the same file; with the published file every round would reach the
    // goal.
    let is_right = line.contains("1.60 (1.40 to 2.00)") && line.contains(": met; reached in 2 of 3 rounds");
    if is_right {
        Ok(())
    } else {
        Err(format!("the goal compares the same file round by round, not {line:?}").into())
    }
}
