//! Reads oha's JSON, which does not say whether `--latency-correction` was on.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::distribution::Distribution;
use super::error::{Error, from_json};
use super::value::{Foreign, Form, Metric, Of, Operation, Since, Times, Tool, Unit};
use crate::units::counted;

/// oha counts times in seconds.
const SECOND_NS: f64 = 1e9;
/// oha's name for a request that was in flight at the end of the test.
const ABORTED: &str = "aborted due to deadline";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    summary: Summary,
    /// `p50`, `p99.9` and so on; null where nothing was answered.
    latency_percentiles: BTreeMap<String, Option<f64>>,
    #[serde(default)]
    status_code_distribution: BTreeMap<String, u64>,
    #[serde(default)]
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    total: Option<f64>,
    slowest: Option<f64>,
    fastest: Option<f64>,
    average: Option<f64>,
    requests_per_sec: Option<f64>,
    total_data: Option<f64>,
    size_per_sec: Option<f64>,
}

/// Reads oha's JSON.
pub(super) fn read(bytes: &[u8]) -> Result<Foreign, Error> {
    let read: Printed = from_json(bytes)?;
    let mut foreign = Foreign::new(Tool::Oha, Form::Json);
    foreign.duration_s = read.summary.total;
    let aborted = read.error_distribution.get(ABORTED).copied().unwrap_or(0);
    if aborted > 0 {
        let requests = counted(aborted, "request");
        foreign.notes.push(format!("{requests} in flight at the end were aborted and are not counted"));
    }
    let data = |count| Metric::counter("bytes read", Unit::Bytes, count, read.summary.size_per_sec);
    foreign.metrics.extend(read.summary.total_data.map(data));
    foreign.operations = vec![operation(read)];
    Ok(foreign)
}

fn operation(read: Printed) -> Operation {
    let answered = total(&read.status_code_distribution);
    let refused = read.status_code_distribution.into_iter().filter(|(status, _)| !is_success(status));
    let refused = refused.map(|(status, count)| (format!("status {status}"), count));
    let unanswered: BTreeMap<_, _> =
        read.error_distribution.into_iter().filter(|(class, _)| class != ABORTED).collect();
    let lost = total(&unanswered);
    let errors: BTreeMap<_, _> = refused.chain(unanswered).collect();
    let failed = total(&errors);
    let mut ns = Distribution {
        count: Some(answered),
        mean: read.summary.average,
        min: read.summary.fastest,
        max: read.summary.slowest,
        ..Distribution::default()
    };
    let known = read.latency_percentiles.into_iter();
    let known = known.filter_map(|(name, value)| Some((name.strip_prefix('p')?.parse().ok()?, value?)));
    known.filter(|(at, _)| (0.0..=100.0).contains(at)).for_each(|(at, value)| ns.set(at, value));
    Operation {
        name: "http requests".to_owned(),
        count: Some(answered.saturating_add(lost)),
        rate_per_s: read.summary.requests_per_sec,
        failed: Some(failed),
        errors,
        times: vec![Times { since: Since::Unknown, of: Of::All, ns: ns.times(SECOND_NS) }],
    }
}

fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

fn is_success(status: &str) -> bool {
    status.starts_with(['2', '3'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_errors_and_aborted_requests_are_counted_apart() {
        let text =
            br#"{"summary":{"successRate":1.0,"total":2.0,"slowest":0.03,"fastest":0.001,"average":0.002,
            "requestsPerSec":50.0,"totalData":1000,"sizePerRequest":10,"sizePerSec":500.0},
            "latencyPercentiles":{"p50":0.0015,"p99.9":0.02,"p99.99":null},
            "statusCodeDistribution":{"200":90,"503":8},
            "errorDistribution":{"aborted due to deadline":4,"connection refused":2}}"#;
        let found = read(text).unwrap();
        let operation = &found.operations[0];
        assert_eq!((operation.count, operation.failed), (Some(100), Some(10)));
        let times = &operation.times[0];
        assert_eq!((times.since, times.ns.count), (Since::Unknown, Some(98)));
        assert_eq!(
            (times.ns.at(50.0), times.ns.at(99.9), times.ns.at(99.99)),
            (Some(1.5e6), Some(20e6), None)
        );
        assert_eq!(found.notes, ["4 requests in flight at the end were aborted and are not counted"]);
    }
}
