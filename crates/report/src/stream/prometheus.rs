//! What a pipeline tells Prometheus: the text format 0.0.4.

use std::fmt::Write as _;

use plimsoll_measure::stream::{Count, Second, Stage};

/// What every metric of a pipeline begins with.
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

/// A metric that is not a counter of the engine.
struct Gauge {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Second) -> f64,
}

const GAUGES: [Gauge; 9] = [
    Gauge {
        name: "in_flight_events",
        kind: "gauge",
        help: "Events that are read and not settled.",
        value: |second| second.in_flight_events as f64,
    },
    Gauge {
        name: "in_flight_bytes",
        kind: "gauge",
        help: "Bytes of these events, as they were read.",
        value: |second| second.in_flight_bytes as f64,
    },
    Gauge {
        name: "in_flight_events_max",
        kind: "gauge",
        help: "Events that may be in flight.",
        value: |second| second.in_flight_events_max as f64,
    },
    Gauge {
        name: "integrity_ratio",
        kind: "gauge",
        help: "Events that are durable (written or dead letters) ÷ events read and not left out; what is in flight is not \
               durable yet.",
        value: |second| second.all_counts().integrity(),
    },
    Gauge {
        name: "settled_events_total",
        kind: "counter",
        help: "Events whose fate is known: written, left out, dead letters or given up.",
        value: |second| second.all_counts().settled() as f64,
    },
    Gauge {
        name: "process_cpu_seconds_total",
        kind: "counter",
        help: "CPU time of the process.",
        value: |second| second.process.cpu_ns as f64 / 1e9,
    },
    Gauge {
        name: "process_resident_bytes",
        kind: "gauge",
        help: "Resident memory of the process.",
        value: |second| second.process.resident_bytes as f64,
    },
    Gauge {
        name: "process_threads",
        kind: "gauge",
        help: "Threads of the process.",
        value: |second| second.process.threads as f64,
    },
    Gauge {
        name: "start_time_seconds",
        kind: "gauge",
        help: "When the pipeline began, in seconds since 1970 UTC: a change is a restart.",
        value: |second| second.started_ms as f64 / 1e3,
    },
];

/// The stages' metric, and its help.
const STAGE: (&str, &str) = (
    "stage_seconds",
    "How long events took at a stage in the last seconds, by quantile; 1 is the longest. The stage `delivery` is from the source's \
     append to the durable acknowledgement.",
);

/// The name, unit and scale of a counter's metric.
fn counter(count: Count) -> (String, f64) {
    match count.word().strip_suffix("_ns") {
        Some(word) => (format!("{PREFIX}{word}_seconds_total"), 1e-9),
        None => (format!("{PREFIX}{}_total", count.word()), 1.0),
    }
}

/// All metrics of a pipeline at a moment; `stages` are the times of the last seconds.
pub fn exposition(labels: &Labels, second: &Second, stages: &[Stage]) -> String {
    let mut out = String::new();
    let common = format!(
        "pipeline=\"{}\",source=\"{}\",sink=\"{}\"",
        escaped(&labels.pipeline),
        escaped(&labels.source),
        escaped(&labels.sink)
    );
    for count in Count::ALL {
        let (name, scale) = counter(count);
        head(&mut out, &name, "counter", count.help());
        put(&mut out, &name, &common, second.count(count) as f64 * scale);
    }
    for gauge in &GAUGES {
        let name = format!("{PREFIX}{}", gauge.name);
        head(&mut out, &name, gauge.kind, gauge.help);
        put(&mut out, &name, &common, (gauge.value)(second));
    }
    let name = format!("{PREFIX}{}", STAGE.0);
    head(&mut out, &name, "gauge", STAGE.1);
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
            put(&mut out, &name, &labels, ns as f64 / 1e9);
        }
    }
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
    row(&format!("{PREFIX}{}", STAGE.0), "gauge", STAGE.1);
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn put(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
        let text = exposition(&labels, &second, &[stage]);
        let common = r#"pipeline="a\"b",source="kafka",sink="mongodb_insert""#;
        for line in [
            format!("plimsoll_pipeline_worker_busy_seconds_total{{{common}}} 1.5"),
            format!("plimsoll_pipeline_start_time_seconds{{{common}}} 3"),
            format!("plimsoll_pipeline_stage_seconds{{{common},stage=\"sink\",quantile=\"0.5\"}} 0.001"),
            "# TYPE plimsoll_pipeline_read_events_total counter".to_owned(),
        ] {
            assert_eq!(text.lines().filter(|known| **known == line).count(), 1, "{line}\n{text}");
        }
        assert_eq!(reference().lines().count(), 2 + Count::ALL.len() + GAUGES.len() + 1);
    }
}
