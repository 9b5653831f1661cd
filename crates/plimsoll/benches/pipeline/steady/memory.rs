//! Whether resident memory stays as it is: the line through its seconds, and how far they lie apart.

use plimsoll_measure::stream::Second;
use serde_json::{Value, json};

/// Of a long run the first minute does not count: buffers grow to their size.
const SKIPPED_S: f64 = 60.0;
/// Memory is flat if the line through it rises by less than this share over the whole run.
const RISE_MAX: f64 = 0.05;

/// Resident memory over a run, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Seconds at first that do not count.
    pub(crate) skipped_s: f64,
    /// The least.
    pub(crate) min: f64,
    /// The most.
    pub(crate) max: f64,
    /// The slope of the line through all seconds, by least squares.
    pub(crate) slope_per_minute: f64,
    mean: f64,
    minutes: f64,
}

impl Memory {
    pub(crate) fn of(seconds: &[Second]) -> Self {
        let at = |second: &Second| second.elapsed_ns as f64 / 1e9;
        let whole_s = seconds.last().map_or(0.0, at);
        // Of a run that is hardly longer than a minute, the first half.
        let skipped_s = SKIPPED_S.min((whole_s / 2.0).floor());
        let points: Vec<(f64, f64)> = seconds
            .iter()
            .filter(|second| at(second) >= skipped_s)
            .map(|second| (at(second) / 60.0, second.process.resident_bytes as f64))
            .collect();
        let bytes = points.iter().map(|(_, bytes)| *bytes);
        let count = points.len().max(1) as f64;
        let mean_at = points.iter().map(|(minute, _)| minute).sum::<f64>() / count;
        let mean = bytes.clone().sum::<f64>() / count;
        let rise: f64 = points.iter().map(|(minute, bytes)| (minute - mean_at) * (bytes - mean)).sum();
        let run: f64 = points.iter().map(|(minute, _)| (minute - mean_at).powi(2)).sum();
        Self {
            skipped_s,
            min: bytes.clone().fold(f64::INFINITY, f64::min),
            max: bytes.fold(0.0, f64::max),
            slope_per_minute: if run > 0.0 { rise / run } else { 0.0 },
            mean,
            minutes: (whole_s - skipped_s) / 60.0,
        }
    }

    /// Whether it stays as it is.
    pub(crate) fn is_flat(&self) -> bool {
        self.slope_per_minute * self.minutes < RISE_MAX * self.mean
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "skipped_s": self.skipped_s, "min_bytes": self.min, "max_bytes": self.max, "mean_bytes": self.mean,
            "slope_bytes_per_minute": self.slope_per_minute, "flat": self.is_flat(),
        })
    }
}
