//! Checks checkpoints, in which the storage engine writes every change to its files.

use plimsoll_load::bottlenecks::reading::{partial, share};
use plimsoll_load::bottlenecks::{
    DEPARTURE, Finding, Level, NOT_REPORTED, NotObserved, Observation, RISE, SecondOfService,
};
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::{Checkpoint, checkpoints};

/// Above this share of the time, several checkpoints follow each other without a pause.
const TIME_SHARE_MAX: f64 = 0.50;
/// The limit for a single checkpoint: by default a checkpoint begins a minute after the end of the last.
const TIME_SHARE_MAX_OF_ONE: f64 = 0.90;
/// The smallest slowdown that can break an objective, in milliseconds.
const SLOWER_MS_MIN: f64 = 1.0;

/// Finds checkpoints that slow operations, or that never end. A checkpoint within the window is not enough:
/// operations must be slower while it runs. Compares service times, because a queue in front of the
/// connections always grows towards a window's end.
pub(super) fn check(baseline: &Observation, knee: &Observation) -> Result<Finding, NotObserved> {
    let (before, at) = (Split::of(baseline)?, Split::of(knee)?);
    let limit = if at.count > 1 { TIME_SHARE_MAX } else { TIME_SHARE_MAX_OF_ONE };
    let ceaseless = at.time_share >= limit && at.time_share >= before.time_share * RISE;
    let slower = at
        .during_ms
        .zip(at.outside_ms)
        .is_some_and(|(during, outside)| during >= outside * DEPARTURE && during - outside >= SLOWER_MS_MIN);
    let mut readings =
        vec![share("share of the time under a checkpoint", (before.time_share, at.time_share))];
    if before.during_ms.or(at.during_ms).is_some() {
        readings.push(partial("mean service time in a checkpoint", "ms", (before.during_ms, at.during_ms)));
        readings.push(partial(
            "mean service time outside a checkpoint",
            "ms",
            (before.outside_ms, at.outside_ms),
        ));
    }
    Ok(Finding { departed: ceaseless || slower, readings })
}

/// The seconds with a checkpoint. [`check`] compares the seconds within one window. These levels serve a comparison over all
/// rates, which asks whether the objective held in the seconds with a checkpoint.
pub(super) fn levels(side: &Observation) -> Result<Vec<Level>, NotObserved> {
    if !tells(side) {
        return Err(NOT_REPORTED);
    }
    let checkpoints = checkpoints(&side.samples);
    let level = |second: &SecondOfService| {
        let (from_ns, to_ns) = (second.from_ns, second.to_ns);
        Level::new((from_ns, to_ns), checkpoints.iter().any(|it| overlap_ns(it, from_ns, to_ns) > 0))
    };
    Ok(side.seconds.iter().map(level).collect())
}

fn tells(side: &Observation) -> bool {
    side.samples.iter().any(|it| it.checkpoints.is_some() || it.checkpoint_running.is_some())
}

/// A window split into the seconds with a checkpoint and those without.
struct Split {
    count: usize,
    time_share: f64,
    during_ms: Option<f64>,
    outside_ms: Option<f64>,
}

impl Split {
    fn of(side: &Observation) -> Result<Self, NotObserved> {
        if !tells(side) {
            return Err(NOT_REPORTED);
        }
        let checkpoints = checkpoints(&side.samples);
        let touched = |from_ns: u64, to_ns: u64| -> u64 {
            checkpoints.iter().map(|it| overlap_ns(it, from_ns, to_ns)).sum()
        };
        let (during, outside): (Vec<_>, Vec<_>) =
            side.seconds.iter().partition(|second| touched(second.from_ns, second.to_ns) > 0);
        let ends = side.samples.first().zip(side.samples.last());
        let (from_ns, to_ns) = ends.map_or((0, 0), |(first, last)| (first.at_ns, last.at_ns));
        let time_share = touched(from_ns, to_ns) as f64 / (to_ns - from_ns).max(SECOND_NS) as f64;
        Ok(Self {
            count: checkpoints.len(),
            time_share: time_share.min(1.0),
            during_ms: mean_ms(&during),
            outside_ms: mean_ms(&outside),
        })
    }
}

fn mean_ms(seconds: &[&SecondOfService]) -> Option<f64> {
    let sum: f64 = seconds.iter().map(|second| second.mean_ns).sum();
    (!seconds.is_empty()).then(|| sum / seconds.len() as f64 / 1e6)
}

fn overlap_ns(checkpoint: &Checkpoint, from_ns: u64, to_ns: u64) -> u64 {
    checkpoint.to_ns.min(to_ns).saturating_sub(checkpoint.from_ns.max(from_ns))
}
