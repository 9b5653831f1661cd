//! Checks write conflicts: when several operations change one document at a time, the storage engine rolls
//! back all but one.

use plimsoll_load::bottlenecks::level::{levels_between, per_s_between};
use plimsoll_load::bottlenecks::observation::both;
use plimsoll_load::bottlenecks::reading::reading;
use plimsoll_load::bottlenecks::{Finding, Level, NotObserved, Observation, departs};
use plimsoll_measure::sample::ServerSample;

/// From one conflict in ten operations on, the work that the server repeats shows in a percentile.
const PER_OPERATION_MAX: f64 = 0.10;

/// Finds more conflicts per operation than at the baseline. Conflicts per second prove nothing, because a higher rate alone has
/// more of them. The server repeats a single update after a conflict; a transaction fails.
pub(super) fn check(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let sides = (baseline, knee);
    let per_s = both(sides, |side| side.per_s(count))?;
    let per_operation = (per_s.0 / operations_per_s(baseline), per_s.1 / operations_per_s(knee));
    let readings = vec![
        reading("write conflicts", "/s", per_s),
        reading("write conflicts for each operation", "", per_operation),
    ];
    Ok(Finding { departed: departs(per_operation.0, per_operation.1, PER_OPERATION_MAX), readings })
}

/// The seconds with many conflicts for each operation of the window.
pub(super) fn levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    let limit_per_s = PER_OPERATION_MAX * operations_per_s(side);
    levels_between(side, |before, after| Some(per_s_between(before, after, count)? >= limit_per_s))
}

/// Operations per second, at least one, so that a window without operations does not show many conflicts per operation.
fn operations_per_s(side: &Observation) -> f64 {
    side.operations_per_s().max(1.0)
}

const fn count(sample: &ServerSample) -> Option<u64> {
    sample.write_conflicts
}
