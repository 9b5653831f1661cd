//! Writes the metrics of a pipeline for Prometheus.
//!
//! The times of events at each stage are given twice: as quantiles of the last seconds, and as a histogram of
//! the whole run. Histograms add up over processes and over any range of time.

use std::fmt::Write as _;

use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::stream::{Count, Second, Stage};

/// The prefix of every metric.
const PREFIX: &str = "plimsoll_pipeline_";

/// A metric that is not a counter of the engine: its name, its help, and its value as a function of the current and previous sample.
type Gauge = (&'static str, &'static str, fn(&Second, &Second) -> f64);

const GAUGES: [Gauge; 11] = [
    ("in_flight_events", "Events that are read and not settled.", |now, _| now.in_flight_events as f64),
    (
        "in_flight_bytes",
        "Bytes of the events in flight, as they were read, and bytes that transforms added.",
        |now, _| now.in_flight_bytes as f64,
    ),
    ("in_flight_events_max", "Events that may be in flight.", |now, _| now.in_flight_events_max as f64),
    (
        "load_ratio",
        "The share of the last second in which workers worked or waited for the sink; the rest is waiting for the source.",
        Second::load_since,
    ),
    (
        "integrity_ratio",
        "Acknowledged ÷ admitted: events that are durable (written or dead letters) or filtered out ÷ events admitted and not \
         handed over. Events in flight are not acknowledged yet, and lost events never are.",
        |now, _| now.all_counts().integrity(),
    ),
    (
        "settled_events_total",
        "Events with a known fate: written, filtered out, dead letters, given up, or left to another process.",
        |now, _| now.all_counts().settled() as f64,
    ),
    (
        "trouble",
        "1 while the sink, the store of positions or the source is unavailable and being retried, else 0.",
        |now, _| f64::from(u8::from(now.trouble.is_some())),
    ),
    ("process_cpu_seconds_total", "CPU time of the process.", |now, _| now.process.cpu_ns as f64 / 1e9),
    ("process_resident_bytes", "Resident memory of the process.", |now, _| now.process.resident_bytes as f64),
    ("process_threads", "Threads of the process.", |now, _| now.process.threads as f64),
    (
        "start_time_seconds",
        "When the pipeline began, in seconds since 1970 UTC: a change is a restart.",
        |now, _| now.started_ms as f64 / 1e3,
    ),
];

/// The labels of every metric.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The pipeline's name.
    pub pipeline: String,
    /// The kind of its source.
    pub source: String,
    /// The kind of its sink: `mongodb_insert` and others.
    pub sink: String,
}

/// The name of a counter's metric, which ends in its unit, and the factor from the counter to that unit.
fn counter(count: Count) -> (String, f64) {
    match count.word().strip_suffix("_ns") {
        Some(word) => (format!("{PREFIX}{word}_seconds_total"), 1e-9),
        None => (format!("{PREFIX}{}_total", count.word()), 1.0),
    }
}

/// The type of a metric by its name: a total only rises.
fn kind(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

/// A pipeline at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// The labels of every metric.
    pub labels: &'a Labels,
    /// The previous sample.
    pub before: &'a Second,
    /// The current sample.
    pub now: &'a Second,
    /// The times of the last seconds, by stage.
    pub recent: &'a [Stage],
    /// The times since the pipeline began: the name and the times of each stage.
    pub whole: &'a [(&'a str, &'a Histogram)],
}

/// All metrics of a pipeline at a moment.
pub fn exposition(scrape: &Scrape<'_>) -> String {
    let mut out = String::new();
    let Scrape { labels, before, now, recent, whole } = *scrape;
    let common = format!(
        "pipeline=\"{}\",source=\"{}\",sink=\"{}\"",
        escaped(&labels.pipeline),
        escaped(&labels.source),
        escaped(&labels.sink)
    );
    for count in Count::ALL {
        let (name, scale) = counter(count);
        put_head(&mut out, &name, "counter", count.help());
        put(&mut out, &name, &common, now.count(count) as f64 * scale);
    }
    for (name, help, value) in GAUGES {
        put_head(&mut out, &format!("{PREFIX}{name}"), kind(name), help);
        put(&mut out, &format!("{PREFIX}{name}"), &common, value(now, before));
    }
    put_quantiles(&mut out, PREFIX, &common, recent);
    put_histograms(&mut out, PREFIX, &common, whole);
    out
}

/// The list of metrics, as a table for the documentation.
pub fn reference() -> String {
    let mut out = String::from("| metric | type | meaning |\n| --- | --- | --- |\n");
    let mut row = |name: &str, kind: &str, help: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "| `{name}` | {kind} | {help} |");
    };
    Count::ALL.iter().for_each(|count| row(&counter(*count).0, "counter", count.help()));
    GAUGES.iter().for_each(|(name, help, _)| row(&format!("{PREFIX}{name}"), kind(name), help));
    row(&format!("{PREFIX}{}", QUANTILES.0), "gauge", QUANTILES.1);
    row(&format!("{PREFIX}{}", HISTOGRAM.0), "histogram", HISTOGRAM.1);
    out
}

/// The metric of the quantiles, and its help.
const QUANTILES: (&str, &str) = (
    "stage_seconds",
    "How long events took at a stage in the last 10 to 20 seconds, by quantile; 1 is the longest. The stage `delivery` lasts from \
     an event's time, by the clock of its producer or of the source's system, to the durable acknowledgement by this machine's clock.",
);
/// The metric of the histogram, and its help.
const HISTOGRAM: (&str, &str) = (
    "stage_duration_seconds",
    "How long events took at a stage since the pipeline began, as a histogram that adds up over processes.",
);

/// The upper bounds of the histogram, in nanoseconds: 1, 2.5 and 5 of each power of ten from 1 µs to 100 s.
fn bounds_ns() -> impl Iterator<Item = u64> {
    let decades = (2..10).flat_map(|power| [10, 25, 50].map(|mantissa| mantissa * 10u64.pow(power)));
    decades.chain([100_000_000_000])
}

/// Appends the quantiles of all stages that had events.
fn put_quantiles(out: &mut String, prefix: &str, common: &str, stages: &[Stage]) {
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
fn put_histograms(out: &mut String, prefix: &str, common: &str, stages: &[(&str, &Histogram)]) {
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
fn put_head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends a sample.
fn put(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A label value with its special characters escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_appears_once_with_its_help_and_type() {
        let labels =
            Labels { pipeline: "a\"b".into(), source: "kafka".into(), sink: "mongodb_insert".into() };
        let stage = Stage {
            name: "sink".into(),
            events: 3,
            p50_ns: 1_000_000,
            max_ns: 2_000_000,
            ..Stage::default()
        };
        let mut second =
            Second { at_ms: 5000, started_ms: 3000, elapsed_ns: 2_000_000_000, ..Second::default() };
        second.counts.insert("worker_busy_ns".into(), 1_500_000_000);
        second.counts.insert("worker_idle_ns".into(), 500_000_000);
        second.trouble = Some("the sink is away".into());
        let (before, mut times) = (Second::default(), Histogram::default());
        times.record_many(1_000_000, 3);
        let scrape = Scrape {
            labels: &labels,
            before: &before,
            now: &second,
            recent: &[stage],
            whole: &[("sink", &times)],
        };
        let text = exposition(&scrape);
        let common = r#"pipeline="a\"b",source="kafka",sink="mongodb_insert""#;
        for line in [
            format!("plimsoll_pipeline_worker_busy_seconds_total{{{common}}} 1.5"),
            format!("plimsoll_pipeline_start_time_seconds{{{common}}} 3"),
            format!("plimsoll_pipeline_stage_seconds{{{common},stage=\"sink\",quantile=\"0.5\"}} 0.001"),
            format!("plimsoll_pipeline_load_ratio{{{common}}} 0.75"),
            format!("plimsoll_pipeline_trouble{{{common}}} 1"),
            format!("plimsoll_pipeline_stage_duration_seconds_count{{{common},stage=\"sink\"}} 3"),
            "# TYPE plimsoll_pipeline_read_events_total counter".to_owned(),
            "# TYPE plimsoll_pipeline_stage_duration_seconds histogram".to_owned(),
        ] {
            assert_eq!(text.lines().filter(|known| **known == line).count(), 1, "{line}\n{text}");
        }
        let listed = reference();
        assert_eq!(listed.lines().count(), 2 + Count::ALL.len() + GAUGES.len() + 2);
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            assert!(listed.contains(&format!("| `{name}` | {kind} |")), "{name} is not in the list");
        }
    }

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
