//! Judges one bound over the operations that ended in a stretch of time.

use plimsoll_measure::interval::Tally;
use plimsoll_measure::threshold::{Aggregate, Threshold};

use super::Window;

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

pub(super) fn latency_holds(threshold: &Threshold, counts: &plimsoll_measure::histogram::Histogram) -> bool {
    let value = match threshold.aggregate {
        Aggregate::Percentile(percentile) => counts.at(percentile) as f64,
        Aggregate::Med => counts.at(50.0) as f64,
        Aggregate::Avg => counts.mean(),
        _ => counts.max() as f64,
    };
    threshold.comparison.holds(value, threshold.bound.as_ns())
}
