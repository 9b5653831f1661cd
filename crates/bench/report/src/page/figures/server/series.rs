//! Converts counters and gauges of a server to lines of a chart.

use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::ServerSample;

use crate::chart::{Point, Series, Stroke};

/// A counter of a sample.
pub(super) type Counter = fn(&ServerSample) -> Option<u64>;

/// The stroke of each line, so that lines differ without colour.
const STROKES: [Stroke; 5] = [Stroke::Solid, Stroke::Dashed, Stroke::Dotted, Stroke::Thin, Stroke::Dashed];

/// The value of every sample.
pub(super) fn gauge(
    samples: &[ServerSample],
    name: &str,
    index: usize,
    read: impl Fn(&ServerSample) -> Option<f64>,
) -> Series {
    let points = samples.iter().map(|sample| Point { x: at_s(sample), y: read(sample) }).collect();
    line(name, index, points)
}

/// How fast a counter rises a second, in units of `unit`; a gap where it fell, for then the server started anew.
pub(super) fn per_second(
    samples: &[ServerSample],
    name: &str,
    index: usize,
    read: Counter,
    unit: f64,
) -> Series {
    let rise = |pair: &[ServerSample]| {
        let seconds = at_s(&pair[1]) - at_s(&pair[0]);
        (seconds > 0.0).then_some(risen(pair, read)? / unit / seconds)
    };
    line(name, index, between(samples, rise))
}

/// The rise of one counter per step of another, in units of `unit`; a gap if the other did not rise.
pub(super) fn each(
    samples: &[ServerSample],
    name: &str,
    index: usize,
    (sum, count): (Counter, Counter),
    unit: f64,
) -> Series {
    let mean = |pair: &[ServerSample]| {
        let count = risen(pair, count).filter(|count| *count > 0.0)?;
        Some(risen(pair, sum)? / count / unit)
    };
    line(name, index, between(samples, mean))
}

fn line(name: &str, index: usize, points: Vec<Point>) -> Series {
    Series::line(name, index, STROKES[index % STROKES.len()], points)
}

fn between(samples: &[ServerSample], value: impl Fn(&[ServerSample]) -> Option<f64>) -> Vec<Point> {
    samples.windows(2).map(|pair| Point { x: at_s(&pair[1]), y: value(pair) }).collect()
}

fn risen(pair: &[ServerSample], read: Counter) -> Option<f64> {
    Some(read(&pair[1])?.checked_sub(read(&pair[0])?)? as f64)
}

fn at_s(sample: &ServerSample) -> f64 {
    sample.at_ns as f64 / SECOND_NS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, count: Option<u64>, sum: Option<u64>) -> ServerSample {
        ServerSample {
            at_ns: second * SECOND_NS,
            journal_syncs: count,
            journal_sync_us: sum,
            ..ServerSample::default()
        }
    }

    #[test]
    fn a_counter_becomes_a_rate_and_a_restart_a_gap() {
        let samples = [(0, Some(0)), (2, Some(3000)), (3, Some(5)), (4, None)];
        let samples = samples.map(|(second, sum)| sample(second, None, sum));
        let series = per_second(&samples, "syncing", 0, |it| it.journal_sync_us, 1e3);
        assert_eq!(series.points, [Point::new(2.0, 1.5), Point::gap(3.0), Point::gap(4.0)]);
    }

    #[test]
    fn a_mean_needs_something_to_be_a_mean_of() {
        let samples = [(0, 0, 0), (1, 10, 5000), (2, 10, 5000), (3, 12, 9000)];
        let samples = samples.map(|(second, count, sum)| sample(second, Some(count), Some(sum)));
        let both: (Counter, Counter) = (|it| it.journal_sync_us, |it| it.journal_syncs);
        let series = each(&samples, "mean", 0, both, 1e3);
        assert_eq!(series.points, [Point::new(1.0, 0.5), Point::gap(2.0), Point::new(3.0, 2.0)]);
    }
}
