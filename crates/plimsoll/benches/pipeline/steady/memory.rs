//! Checks whether resident memory is stable: fits a line, and compares the first and last seconds.

use plimsoll_measure::stream::Second;
use serde_json::{Value, json};

/// The first minute of a long run does not count: buffers grow to their size.
const SKIPPED_S: f64 = 60.0;
/// The limit of the rise over the whole run, as a share, by the fitted line and from the first tenth to the
/// last.
const RISE_MAX: f64 = 0.05;

/// Resident memory over a run, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The number of seconds at the start that do not count.
    pub(crate) skipped_s: f64,
    /// The smallest value of the counted seconds.
    pub(crate) min: f64,
    /// The largest value of the counted seconds.
    pub(crate) max: f64,
    /// The mean of the first counted tenth.
    pub(crate) first: f64,
    /// The mean of the last tenth.
    pub(crate) last: f64,
    /// The slope of the line through all counted seconds, by least squares, in bytes per minute.
    pub(crate) slope_per_minute: f64,
    mean: f64,
    minutes: f64,
}

impl Memory {
    pub(crate) fn of(seconds: &[Second]) -> Self {
        let point = |second: &Second| (second.elapsed_ns as f64 / 1e9, second.process.resident_bytes as f64);
        Self::over(&seconds.iter().map(point).collect::<Vec<_>>())
    }

    /// Computes the same from moments in seconds and bytes, in order.
    pub(crate) fn over(all: &[(f64, f64)]) -> Self {
        let whole_s = all.last().map_or(0.0, |(at, _)| *at);
        // A run shorter than two minutes skips its first half.
        let skipped_s = SKIPPED_S.min((whole_s / 2.0).floor());
        let counted = &all[all.partition_point(|(at, _)| *at < skipped_s)..];
        let bytes: Vec<f64> = counted.iter().map(|(_, bytes)| *bytes).collect();
        let tenth = (bytes.len() / 10).max(1).min(bytes.len());
        Self {
            skipped_s,
            min: bytes.iter().copied().fold(f64::INFINITY, f64::min),
            max: bytes.iter().copied().fold(0.0, f64::max),
            first: mean(&bytes[..tenth]),
            last: mean(&bytes[bytes.len() - tenth..]),
            slope_per_minute: 60.0 * slope(counted),
            mean: mean(&bytes),
            minutes: (whole_s - skipped_s) / 60.0,
        }
    }

    /// Whether the memory rises by less than `RISE_MAX` of its mean.
    pub(crate) fn is_flat(&self) -> bool {
        let rise = (self.slope_per_minute * self.minutes).max(self.last - self.first);
        rise < RISE_MAX * self.mean
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "skipped_s": self.skipped_s, "min_bytes": self.min, "max_bytes": self.max, "mean_bytes": self.mean,
            "first_tenth_bytes": self.first, "last_tenth_bytes": self.last,
            "slope_bytes_per_minute": self.slope_per_minute, "flat": self.is_flat(),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The slope of the line through points, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let (sum_at, sum_bytes) =
        points.iter().fold((0.0_f64, 0.0_f64), |(ats, all), (at, bytes)| (ats + at, all + bytes));
    let (mean_at, mean_bytes) = (sum_at / count, sum_bytes / count);
    let rise: f64 = points.iter().map(|(at, bytes)| (at - mean_at) * (bytes - mean_bytes)).sum();
    let run: f64 = points.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    if run > 0.0 { rise / run } else { 0.0 }
}
