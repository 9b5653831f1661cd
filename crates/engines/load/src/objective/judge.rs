//! Judges one bound over the operations that ended in a stretch of time.

use plimsoll_measure::histogram::Histogram;
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

/// Whether a bound on a latency holds if `failed` further operations took infinitely long.
pub(super) fn latency_holds(threshold: &Threshold, counts: &Histogram, failed: u64) -> bool {
    let percentile = |percentile| counts.at_among(percentile, failed).map_or(f64::INFINITY, |ns| ns as f64);
    let value = match threshold.aggregate {
        Aggregate::Percentile(p) => percentile(p),
        Aggregate::Med => percentile(50.0),
        _ if failed > 0 => f64::INFINITY,
        Aggregate::Avg => counts.mean(),
        _ => counts.max() as f64,
    };
    threshold.comparison.holds(value, threshold.bound.as_ns())
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::Instant;
    use plimsoll_measure::interval::{Instants, Reply};
    use plimsoll_measure::outcome::{Doubt, Outcome};

    use super::super::{Metric, Objective};
    use super::*;

    /// 100 operations of 1 ms, and `failed` failed ones that took no longer.
    fn tally(failed: u64) -> Tally {
        let (mut tally, at) = (Tally { due: 100 + failed, ..Tally::default() }, Instant::from_ns(0));
        let instants = Instants { due: at, awake: at, sent: at, done: at + 1_000_000 };
        (0..100).for_each(|_| tally.record(&instants, &Reply::acknowledged(1)));
        let timeout = Reply::failed(Outcome::Unknown(Doubt::Timeout), 1);
        (0..failed).for_each(|_| tally.record(&instants, &timeout));
        tally
    }

    #[test]
    fn a_failure_counts_as_infinitely_slow() {
        for (bound, allowed) in [("p(99)<50ms", 1), ("med<50ms", 100), ("avg<50ms", 0), ("max<50ms", 0)] {
            for metric in [Metric::Response, Metric::Service] {
                let objective = Objective { bounds: vec![(metric, bound.parse().unwrap())] };
                assert!(objective.holds_in(&tally(allowed)), "{bound} with {allowed} failures");
                assert!(!objective.holds_in(&tally(allowed + 1)), "{bound} with {} failures", allowed + 1);
            }
        }
    }
}
