//! Formats expectations and objectives in their own units.

use plimsoll_measure::run::Expectation;
use plimsoll_measure::threshold::{Aggregate, Bound, Comparison, Threshold};

use crate::units::{NONE, exact, latency, three_digits, tidy};

/// Suffixes of the names of metrics that are latencies in nanoseconds.
const LATENCIES: [&str; 5] = ["response", "service", "wake", "wait", "failed_response"];

/// The measured value in the metric's unit; a dash if unknown.
pub(crate) fn measured(expectation: &Expectation) -> String {
    match expectation.value {
        None => NONE.to_owned(),
        Some(ns) if is_latency(expectation) => latency(ns.round().max(0.0) as u64),
        Some(whole) if whole.fract() == 0.0 && whole >= 0.0 => exact(whole as u64),
        Some(number) => three_digits(number),
    }
}

fn is_latency(expectation: &Expectation) -> bool {
    let number = expectation.expression.parse::<Threshold>().map(|threshold| threshold.aggregate);
    let counts = matches!(number, Ok(Aggregate::Count | Aggregate::Rate));
    let metric = expectation.metric.split('{').next().unwrap_or_default();
    let name = metric.rsplit('.').next().unwrap_or_default();
    !counts && (LATENCIES.contains(&name) || name == "http_req_duration")
}

/// A bound of an objective in words: `response p(99)<50ms` is written `p99 response < 50 ms`, `errors count==0` is
/// written `no errors`; other bounds stay as they are.
pub(crate) fn in_words(objective: &str) -> String {
    known(objective).unwrap_or_else(|| objective.to_owned())
}

fn known(objective: &str) -> Option<String> {
    let (metric, expression) = objective.split_once(' ')?;
    let threshold: Threshold = expression.parse().ok()?;
    if LATENCIES.contains(&metric) {
        let bound = tidy(&latency(threshold.bound.as_ns().round().max(0.0) as u64));
        return Some(format!("{} {metric} {} {bound}", number(threshold.aggregate)?, threshold.comparison));
    }
    let is_none = threshold.comparison == Comparison::Equal && threshold.bound == Bound::Plain(0.0);
    (metric == "errors" && is_none).then(|| "no errors".to_owned())
}

/// The word for a statistic of a latency, such as `p99`.
fn number(aggregate: Aggregate) -> Option<String> {
    match aggregate {
        Aggregate::Percentile(percentile) => Some(format!("p{percentile}")),
        Aggregate::Med => Some("median".to_owned()),
        Aggregate::Avg => Some("mean".to_owned()),
        Aggregate::Max => Some("longest".to_owned()),
        Aggregate::Min => Some("shortest".to_owned()),
        Aggregate::Count | Aggregate::Rate | Aggregate::Value => None,
    }
}

/// The upper bound of `objective` on a latency, in nanoseconds, if it has one. Reads `insert.response
/// p(99)<50ms` and `p99 response < 50 ms` alike.
pub(crate) fn bound_ns(objective: &str) -> Option<f64> {
    let (_, right) = objective.split_once('<')?;
    let right = right.trim_start_matches('=').trim();
    let threshold: Threshold = format!("max<{right}").parse().ok()?;
    threshold.bound.as_number().is_none().then(|| threshold.bound.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metric: &str, expression: &str, value: Option<f64>, text: &str) {
        let (metric, expression) = (metric.to_owned(), expression.to_owned());
        assert_eq!(measured(&Expectation { metric, expression, value, ..Expectation::default() }), text);
    }

    #[test]
    fn a_measured_value_has_its_metrics_unit() {
        check("insert.response", "p(99)<50ms", Some(63e6), "63.0 ms");
        check("response{kind:query}", "p(95)<200ms", Some(63e6), "63.0 ms");
        check("insert.response", "count>100", Some(5000.0), "5,000");
        check("integrity.lost", "count==0", Some(0.0), "0");
        check("insert.errors", "rate<0.01", Some(0.125), "0.12");
        check("insert.response", "p(99)<50ms", None, "–");
    }

    #[test]
    fn an_objective_is_formatted_in_words() {
        for (bound, words) in [
            ("response p(99)<50ms", "p99 response < 50 ms"),
            ("service max<=1.5s", "longest service <= 1.5 s"),
            ("errors count==0", "no errors"),
            ("errors rate<0.01", "errors rate<0.01"),
            ("p99 response < 50 ms", "p99 response < 50 ms"),
        ] {
            assert_eq!(in_words(bound), words);
        }
    }

    #[test]
    fn a_latency_bound_is_read_from_an_objective() {
        assert_eq!(bound_ns("insert.response p(99)<50ms"), Some(50e6));
        assert_eq!(bound_ns("p99 response <= 1.5 s"), Some(1.5e9));
        assert_eq!(bound_ns("errors rate<0.01"), None);
        assert_eq!(bound_ns("no errors"), None);
    }
}
