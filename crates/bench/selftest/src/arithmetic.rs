//! Checks percentile arithmetic against exact sorting, and merged parts against the whole.

use plimsoll_load::mix::scramble;
use plimsoll_measure::clock::Instant;
use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::interval::{Instants, Reply, Tally};
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use super::Finding;

const SEED: u64 = 20_261_121;
const VALUES: u64 = 1_000_000;
const PARTS: usize = 7;
/// Three significant digits.
const ERROR_MAX: f64 = 0.001;

/// Compares percentiles of a million latencies with those of the sorted list.
///
/// # Errors
/// None; the signature is that of every self-test.
pub fn percentiles() -> anyhow::Result<Finding> {
    let mut values: Vec<u64> = (0..VALUES).map(latency).collect();
    let mut histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    values.sort_unstable();
    let worst =
        [50.0, 90.0, 95.0, 99.0, 99.9, 99.99].map(|percentile| error(&values, &histogram, percentile));
    let worst = worst.into_iter().fold(0.0, f64::max);
    let figure = format!("largest error {:.4} % over {VALUES} values (at most 0.1 %)", worst * 100.0);
    Ok(Finding { name: "percentiles against exact sorting", passed: worst <= ERROR_MAX, figure, score: None })
}

/// A latency between 1 ns and 17 s, spread evenly over the orders of magnitude.
fn latency(index: u64) -> u64 {
    let bits = scramble(SEED, index);
    1 + (bits >> 30) % (1 << (1 + bits % 34))
}

fn error(sorted: &[u64], histogram: &Histogram, percentile: f64) -> f64 {
    let rank = (percentile / 100.0 * sorted.len() as f64).ceil() as usize;
    let exact = sorted[rank.max(1) - 1] as f64;
    // One nanosecond is the resolution of the clock.
    ((histogram.at(percentile) as f64 - exact).abs() - 1.0).max(0.0) / exact
}

/// Distributes operations of every outcome over several tallies and compares their sum with one tally of all.
///
/// # Errors
/// None; the signature is that of every self-test.
pub fn merge() -> anyhow::Result<Finding> {
    let mut whole = Tally::default();
    let mut parts = vec![Tally::default(); PARTS];
    for index in 0..VALUES / 10 {
        let part = &mut parts[scramble(SEED, index) as usize % PARTS];
        count(&mut whole, index);
        count(part, index);
    }
    let mut merged = Tally::default();
    parts.iter().for_each(|part| merged.merge(part));
    let figure = format!("{} operations in {PARTS} parts, every counter and histogram compared", whole.due);
    Ok(Finding { name: "merged parts against the whole", passed: merged == whole, figure, score: None })
}

fn count(tally: &mut Tally, index: u64) {
    let outcomes = Rejection::ALL.map(Outcome::Rejected).into_iter().chain(Doubt::ALL.map(Outcome::Unknown));
    let outcome =
        outcomes.chain([Outcome::Acknowledged]).nth(index as usize % 16).unwrap_or(Outcome::Acknowledged);
    let reply =
        if outcome == Outcome::Acknowledged { Reply::acknowledged(3) } else { Reply::failed(outcome, 2) };
    let (due, latency) = (Instant::from_ns(index), latency(index));
    let at = Instants { due, awake: due + latency / 8, sent: due + latency / 4, done: due + latency };
    tally.due += 1;
    tally.skipped += index % 2;
    tally.record(&at, &Reply { bytes_sent: index, bytes_received: latency, ..reply });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_passes() {
        assert!(percentiles().unwrap().passed);
        assert!(merge().unwrap().passed);
    }

    #[test]
    fn an_inexact_histogram_is_detected() {
        let sorted: Vec<u64> = (1..=1000).map(|value| value * 1000).collect();
        let mut histogram = Histogram::default();
        sorted.iter().for_each(|value| histogram.record(value + value / 100));
        assert!(error(&sorted, &histogram, 99.0) > ERROR_MAX);
    }
}
