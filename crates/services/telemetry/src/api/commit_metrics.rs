//! Writes the metrics of readings and their commits.

use plimsoll_service::metrics::Page;

use crate::readings::{Counters, Histogram};

/// Writes the counters.
pub(super) fn write(counters: &Counters, page: &mut Page) {
    const STORED: &str = "telemetry_readings_total";
    page.begin(STORED, "counter", "Readings by outcome.");
    for (outcome, count) in [
        ("new", counters.new),
        ("known", counters.known),
        ("failed", counters.failed),
        ("busy", counters.busy),
    ] {
        page.sample(STORED, &format!("outcome=\"{outcome}\""), count);
    }
    page.single("telemetry_readings_accepted_total", "counter", "Readings accepted.", counters.accepted);
    page.single("telemetry_readings_queued", "gauge", "Readings queued or in flight.", counters.queued);
    const SIZE: &str = "telemetry_commit_readings";
    page.begin(SIZE, "histogram", "Readings in each commit.");
    histogram(&counters.commit_readings, SIZE, 1.0, page);
    const TIME: &str = "telemetry_commit_seconds";
    page.begin(TIME, "histogram", "Time of the store for each commit.");
    histogram(&counters.store_us, TIME, 1e-6, page);
}

/// Writes a histogram with powers of two as bounds. `unit` scales its values.
fn histogram(histogram: &Histogram, name: &str, unit: f64, page: &mut Page) {
    let bucket = |(step, count): (usize, &u64)| {
        let bound = Histogram::bound(step)? as f64 * unit;
        // Enough digits for a power of two of microseconds in seconds.
        let bound = format!("{bound:.6}");
        Some((bound.trim_end_matches('0').trim_end_matches('.').to_owned(), *count))
    };
    let buckets = histogram.steps.iter().enumerate().filter_map(bucket);
    page.histogram(name, "", buckets, histogram.count(), histogram.sum as f64 * unit);
}
