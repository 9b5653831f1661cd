//! Writes the times of events at each stage for Prometheus: quantiles of the last seconds, and a histogram of the whole
//! run, which adds up over processes and over any range of time.

use std::fmt::Write as _;

use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::stream::Stage;

/// The metric of the quantiles, and its help.
pub(super) const QUANTILES: (&str, &str) = (
    "stage_seconds",
    "How long events took at a stage in the last 10 to 20 seconds, by quantile; 1 is the longest. The stage `delivery` lasts from \
     the source's append to the durable acknowledgement.",
);
/// The metric of the histogram, and its help.
pub(super) const HISTOGRAM: (&str, &str) = (
    "stage_duration_seconds",
    "The same since the pipeline began, as a histogram: it adds up over processes.",
);

/// The upper bounds of the histogram, in nanoseconds: 1, 2.5 and 5 of each power of ten from 1 µs to 100 s.
fn bounds_ns() -> impl Iterator<Item = u64> {
    let decades = (2..10).flat_map(|power| [10, 25, 50].map(|mantissa| mantissa * 10u64.pow(power)));
    decades.chain([100_000_000_000])
}

/// Appends the quantiles of a stage.
pub(super) fn put_quantiles(out: &mut String, prefix: &str, common: &str, stages: &[Stage]) {
    let name = format!("{prefix}{}", QUANTILES.0);
    put_head(out, &name, "gauge", QUANTILES.1);
    for stage in stages.iter().filter(|stage| stage.events > 0) {
        let quantiles = [
            ("0.5", stage.p50_ns),
            ("0.95", stage.p95_ns),
            ("0.99", stage.p99_ns),
            ("0.999", stage.p999_ns),
            ("1", stage.max_ns),
        ];
        for (quantile, ns) in quantiles {
            let labels = format!("{common},stage=\"{}\",quantile=\"{quantile}\"", escaped(&stage.name));
            put(out, &name, &labels, ns as f64 / 1e9);
        }
    }
}

/// Appends the histograms of the stages.
pub(super) fn put_histograms(out: &mut String, prefix: &str, common: &str, stages: &[(&str, &Histogram)]) {
    let name = format!("{prefix}{}", HISTOGRAM.0);
    put_head(out, &name, "histogram", HISTOGRAM.1);
    for (stage, times) in stages {
        let labels = format!("{common},stage=\"{}\"", escaped(stage));
        let bucket = format!("{name}_bucket");
        for bound in bounds_ns() {
            let labels = format!("{labels},le=\"{}\"", bound as f64 / 1e9);
            put(out, &bucket, &labels, times.count_up_to(bound) as f64);
        }
        put(out, &bucket, &format!("{labels},le=\"+Inf\""), times.count() as f64);
        put(out, &format!("{name}_sum"), &labels, times.mean() * times.count() as f64 / 1e9);
        put(out, &format!("{name}_count"), &labels, times.count() as f64);
    }
}

/// Appends the help and the type of a metric.
pub(super) fn put_head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends a sample.
pub(super) fn put(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A label value with its special characters escaped.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_rising_counts_and_its_sum() {
        let mut times = Histogram::default();
        times.record_many(2_000_000, 3);
        times.record_many(2_000_000_000, 1);
        let mut out = String::new();
        put_histograms(&mut out, "p_", "a=\"b\"", &[("sink", &times)]);
        let value = |what: &str| {
            let line =
                out.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}\n{out}"));
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let bucket = |le: &str| {
            value(&format!("p_stage_duration_seconds_bucket{{a=\"b\",stage=\"sink\",le=\"{le}\"}}"))
        };
        assert_eq!(
            [bucket("0.001"), bucket("0.0025"), bucket("1"), bucket("2.5"), bucket("+Inf")],
            [0.0, 3.0, 3.0, 4.0, 4.0]
        );
        assert!((value("p_stage_duration_seconds_sum") - 2.006).abs() < 0.01);
        assert!((value("p_stage_duration_seconds_count") - 4.0).abs() < 1e-9);
        assert!(bounds_ns().is_sorted() && bounds_ns().count() == 25);
    }
}
