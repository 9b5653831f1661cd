//! Judges one bound: in a window with confidence, and in a short stretch without.

use plimsoll_measure::interval::Tally;
use plimsoll_measure::threshold::{Aggregate, Threshold};

use super::{Metric, Window};

/// One-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.645;

pub(super) fn judge_bound(metric: Metric, threshold: &Threshold, window: &Window) -> Option<String> {
    match metric {
        Metric::Errors => judge_errors(threshold, window),
        Metric::Response => judge_latency("response", &window.tally.response, threshold),
        Metric::Service => judge_latency("service", &window.tally.service, threshold),
    }
}

pub(super) fn judge_errors(threshold: &Threshold, window: &Window) -> Option<String> {
    let errors = window.tally.errors.total();
    (!errors_hold(threshold, &window.tally)).then(|| {
        let classes: Vec<_> =
            window.tally.errors.by_class().map(|(name, count)| format!("{count} {name}")).collect();
        format!("{errors} errors: {}", classes.join(", "))
    })
}

pub(super) fn errors_hold(threshold: &Threshold, tally: &Tally) -> bool {
    let errors = tally.errors.total();
    let share = errors as f64 / tally.completed().max(1) as f64;
    let value = if threshold.aggregate == Aggregate::Rate { share } else { errors as f64 };
    threshold.bound.as_number().is_some_and(|bound| threshold.comparison.holds(value, bound))
}

fn judge_latency(
    name: &str,
    counts: &plimsoll_measure::histogram::Histogram,
    threshold: &Threshold,
) -> Option<String> {
    let bound = threshold.bound.as_ns();
    let (label, value) = match threshold.aggregate {
        Aggregate::Percentile(percentile) => (format!("p({percentile})"), upper_bound(counts, percentile)),
        Aggregate::Med => ("med".to_owned(), upper_bound(counts, 50.0)),
        Aggregate::Avg => ("avg".to_owned(), (counts.count() > 0).then(|| counts.mean())),
        _ => ("max".to_owned(), (counts.count() > 0).then(|| counts.max() as f64)),
    };
    let Some(value) = value else {
        return Some(format!("{name} {label} is unknown: n = {} is too small", counts.count()));
    };
    let holds = threshold.comparison.holds(value, bound);
    (!holds).then(|| {
        format!(
            "{name} {label} is {:.2} ms at its confidence bound, not {} {} ms",
            value / 1e6,
            threshold.comparison,
            bound / 1e6
        )
    })
}

/// The upper end of the one-sided 95 % confidence interval of a percentile, from the binomial spread of its rank, in
/// nanoseconds. Returns none if the percentile or its bound has too few values.
fn upper_bound(counts: &plimsoll_measure::histogram::Histogram, percentile: f64) -> Option<f64> {
    counts.supported_at(percentile)?;
    let (n, p) = (counts.count() as f64, percentile / 100.0);
    let rank = n * p + Z * (n * p * (1.0 - p)).sqrt();
    (rank <= n).then(|| counts.at(rank / n * 100.0) as f64)
}

pub(super) fn latency_holds(threshold: &Threshold, counts: &plimsoll_measure::histogram::Histogram) -> bool {
    let value = match threshold.aggregate {
        Aggregate::Percentile(percentile) => counts.at(percentile) as f64,
        Aggregate::Med => counts.at(50.0) as f64,
        Aggregate::Avg => counts.mean(),
        _ => counts.max() as f64,
    };
    threshold.comparison.holds(value, threshold.bound.as_ns())
}
