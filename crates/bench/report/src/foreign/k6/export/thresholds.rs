//! Writes the expectations of a run as k6's thresholds.

use plimsoll_measure::run::Expectation;
use plimsoll_measure::threshold::{Aggregate, Threshold};

use super::metrics::{Metric, Metrics, id, number};

/// Nanoseconds in k6's unit of time.
const MS_NS: f64 = 1e6;
/// Suffixes of the names of latencies.
const TIMES: [&str; 7] =
    ["failed_response", "response", "service", "wake", "wait", "http_req_duration", "iteration_duration"];

/// Attaches every expectation to its metric. If the run lacks the metric, it is added with only the expected
/// statistics.
pub(super) fn add(metrics: &mut Metrics, expectations: &[Expectation]) {
    for expectation in expectations {
        let name = name(&expectation.metric);
        let parsed = expectation.expression.parse::<Threshold>();
        let threshold = parsed.as_ref().ok();
        let (kind, contains) = kind(&name);
        let metric = metrics.entry(name).or_insert_with(|| Metric::empty(kind, contains));
        let is_time = metric.contains == "time";
        let expression =
            threshold.map_or_else(|| expectation.expression.clone(), |it| expression(it, is_time));
        if let (Some(threshold), Some(value)) = (threshold, expectation.value) {
            let key = key(threshold.aggregate);
            let value = if is_ms(threshold.aggregate, is_time) { value / MS_NS } else { value };
            metric.values.entry(key).or_insert_with(|| number(value));
        }
        metric.thresholds.insert(expression, expectation.held);
    }
}

/// `insert.response` is exported as `insert_response`; tags stay as they are.
fn name(metric: &str) -> String {
    let base = metric.split('{').next().unwrap_or(metric);
    let tags = &metric[base.len()..];
    id(base.trim()) + tags.trim()
}

/// The kind of a metric that has no numbers yet.
fn kind(name: &str) -> (&'static str, &'static str) {
    match super::super::metric::base(name) {
        time if TIMES.iter().any(|ending| time.ends_with(ending)) => ("trend", "time"),
        share if ["errors", "checks", "http_req_failed"].iter().any(|ending| share.ends_with(ending)) => {
            ("rate", "default")
        }
        achieved if achieved.ends_with("achieved") => ("gauge", "default"),
        data if data.contains("bytes_") || data.starts_with("data_") => ("counter", "data"),
        _ => ("counter", "default"),
    }
}

/// A threshold in k6's grammar. k6 has no units: times are plain numbers of milliseconds.
fn expression(threshold: &Threshold, is_time: bool) -> String {
    let bound = threshold.bound;
    let plain = bound.as_number().filter(|_| !is_ms(threshold.aggregate, is_time));
    let number = plain.unwrap_or_else(|| bound.as_ns() / MS_NS);
    format!("{}{}{number}", threshold.aggregate, threshold.comparison)
}

fn is_ms(aggregate: Aggregate, is_time: bool) -> bool {
    is_time && aggregate != Aggregate::Count
}

/// k6's name for a statistic of a metric, such as `p(99)`.
fn key(aggregate: Aggregate) -> String {
    aggregate.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metric: &str, typed: &str, value: f64, exported: (&str, &str, &str, f64)) {
        let expectation = Expectation {
            metric: metric.into(),
            expression: typed.into(),
            value: Some(value),
            held: true,
            reason: None,
            by_default: false,
        };
        let mut metrics = Metrics::new();
        add(&mut metrics, &[expectation]);
        let (name, expression, key, value) = exported;
        let found = &metrics[name];
        assert_eq!(found.thresholds.iter().collect::<Vec<_>>(), [(&expression.to_owned(), &true)]);
        assert_eq!(found.values[key].as_f64(), Some(value));
    }

    #[test]
    fn expectations_are_written_in_k6s_grammar_and_units() {
        check("insert.response", "p(99)<50ms", 4e6, ("insert_response", "p(99)<50", "p(99)", 4.0));
        check("insert.response", "max <= 1.5s", 4e6, ("insert_response", "max<=1500", "max", 4.0));
        check("insert.response", "p(95)<500", 4e6, ("insert_response", "p(95)<500", "p(95)", 4.0));
        check("insert.response", "count>10", 11.0, ("insert_response", "count>10", "count", 11.0));
        check("integrity.lost", "count==0", 0.0, ("integrity_lost", "count==0", "count", 0.0));
        check("insert.errors", "rate<0.01", 0.5, ("insert_errors", "rate<0.01", "rate", 0.5));
        let tagged = "http_req_duration{scenario:feed}";
        check(tagged, "p(95)<500", 4e6, (tagged, "p(95)<500", "p(95)", 4.0));
    }
}
