//! Writes the metrics of a pipeline for Prometheus.

use std::fmt::Write as _;

use plimsoll_measure::histogram::Histogram;
use plimsoll_measure::stream::{Count, Second, Stage};

use super::gauges::{GAUGES, Moments};
use super::times::{HISTOGRAM, QUANTILES, escaped, put, put_head, put_histograms, put_quantiles};

/// The prefix of every metric.
const PREFIX: &str = "plimsoll_pipeline_";

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

/// The name, unit and scale of a counter's metric.
fn counter(count: Count) -> (String, f64) {
    match count.word().strip_suffix("_ns") {
        Some(word) => (format!("{PREFIX}{word}_seconds_total"), 1e-9),
        None => (format!("{PREFIX}{}_total", count.word()), 1.0),
    }
}

/// A pipeline at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The labels of every metric.
    pub labels: &'a Labels,
    /// The previous sample.
    pub before: &'a Second,
    /// The current sample.
    pub now: &'a Second,
    /// The times of the last seconds, by stage.
    pub recent: &'a [Stage],
    /// Those since it began: each stage's name and times.
    pub whole: &'a [(&'a str, &'a Histogram)],
}

/// All metrics of a pipeline at a moment.
pub fn exposition(told: &Told<'_>) -> String {
    let mut out = String::new();
    let Told { labels, before, now, recent, whole } = *told;
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
    for gauge in &GAUGES {
        let name = format!("{PREFIX}{}", gauge.name);
        put_head(&mut out, &name, gauge.kind, gauge.help);
        put(&mut out, &name, &common, (gauge.value)(Moments { before, now }));
    }
    put_quantiles(&mut out, PREFIX, &common, recent);
    put_histograms(&mut out, PREFIX, &common, whole);
    out
}

/// The list of metrics, as a table for the documentation.
pub fn reference() -> String {
    let mut out = String::from("| metric | type | what |\n| --- | --- | --- |\n");
    let mut row = |name: &str, kind: &str, help: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "| `{name}` | {kind} | {help} |");
    };
    Count::ALL.iter().for_each(|count| row(&counter(*count).0, "counter", count.help()));
    GAUGES.iter().for_each(|gauge| row(&format!("{PREFIX}{}", gauge.name), gauge.kind, gauge.help));
    row(&format!("{PREFIX}{}", QUANTILES.0), "gauge", QUANTILES.1);
    row(&format!("{PREFIX}{}", HISTOGRAM.0), "histogram", HISTOGRAM.1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_told_once_with_its_help_and_type() {
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
        let told = Told {
            labels: &labels,
            before: &before,
            now: &second,
            recent: &[stage],
            whole: &[("sink", &times)],
        };
        let text = exposition(&told);
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
}
