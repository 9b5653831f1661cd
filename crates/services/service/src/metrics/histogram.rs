//! Counts durations in fixed buckets without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::page::Page;

/// Upper bounds, in nanoseconds and as Prometheus writes seconds.
const BOUNDS: [(u64, &str); 17] = [
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
    (30_000_000_000, "30"),
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct DurationHistogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl DurationHistogram {
    /// Counts a duration.
    pub fn record(&self, ns: u64) {
        let bucket = BOUNDS.partition_point(|(bound, _)| *bound < ns);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Writes the histogram under a name and labels.
    pub fn write(&self, page: &mut Page, name: &str, labels: &str) {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let bounds = BOUNDS.iter().map(|(_, bound)| (*bound).to_owned());
        let sum_s = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        page.histogram(name, labels, bounds.zip(counts), counts.iter().sum(), sum_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_all_above() {
        let durations = DurationHistogram::default();
        [0, 100_000, 100_001, 31_000_000_000].into_iter().for_each(|ns| durations.record(ns));
        let mut page = Page::default();
        durations.write(&mut page, "x_seconds", "a=\"b\"");
        let text = page.text();
        for line in [
            "x_seconds_bucket{a=\"b\",le=\"0.0001\"} 2\n",
            "x_seconds_bucket{a=\"b\",le=\"0.00025\"} 3\n",
            "x_seconds_bucket{a=\"b\",le=\"30\"} 3\n",
            "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n",
            "x_seconds_count{a=\"b\"} 4\n",
            "x_seconds_sum{a=\"b\"} 31.0002",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
