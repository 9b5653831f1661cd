//! Checks checkpoints, in which the storage engine writes every change to its files.

use plimsoll_load::bottlenecks::reading::{partial, share};
use plimsoll_load::bottlenecks::{
    DEPARTURE, Finding, Machine, NOT_REPORTED, NotObserved, Observation, RISE, SecondOfService,
};
use plimsoll_measure::clock::SECOND_NS;
use plimsoll_measure::sample::{Checkpoint, checkpoints};

/// Above this share of the time, several checkpoints follow each other without a pause.
const TIME_SHARE_MAX: f64 = 0.50;
/// The limit for a single checkpoint: by default a checkpoint begins a minute after the end of the last.
const TIME_SHARE_MAX_OF_ONE: f64 = 0.90;
/// The smallest slowdown that can break an objective, in milliseconds.
const SLOWER_MS_MIN: f64 = 1.0;

/// Finds checkpoints that slow operations, or that never end. A checkpoint within the window is not enough: operations must be
/// slower while it runs. Compares service times, because a queue in front of the connections grows towards a window's end in any
/// case.
pub(super) fn check(baseline: &Observation, knee: &Observation, _: Machine) -> Result<Finding, NotObserved> {
    let (before, at) = (Split::of(baseline)?, Split::of(knee)?);
    let limit = if at.count > 1 { TIME_SHARE_MAX } else { TIME_SHARE_MAX_OF_ONE };
    let ceaseless = at.time_share >= limit && at.time_share >= before.time_share * RISE;
    let slower = at
        .under_ms
        .zip(at.beside_ms)
        .is_some_and(|(under, beside)| under >= beside * DEPARTURE && under - beside >= SLOWER_MS_MIN);
    let mut readings =
        vec![share("share of the time under a checkpoint", (before.time_share, at.time_share))];
    if before.under_ms.or(at.under_ms).is_some() {
        readings.push(partial("mean service time under one", "ms", (before.under_ms, at.under_ms)));
        readings.push(partial("mean service time beside one", "ms", (before.beside_ms, at.beside_ms)));
    }
    Ok(Finding { departed: ceaseless || slower, readings })
}

/// A window split into the seconds with a checkpoint and those without.
struct Split {
    count: usize,
    time_share: f64,
    under_ms: Option<f64>,
    beside_ms: Option<f64>,
}

impl Split {
    fn of(side: &Observation) -> Result<Self, NotObserved> {
        let tells = side.samples.iter().any(|it| it.checkpoints.is_some() || it.checkpoint_running.is_some());
        if !tells {
            return Err(NOT_REPORTED);
        }
        let checkpoints = checkpoints(&side.samples);
        let touched = |from_ns: u64, to_ns: u64| -> u64 {
            checkpoints.iter().map(|it| overlap_ns(it, from_ns, to_ns)).sum()
        };
        let (under, beside): (Vec<_>, Vec<_>) =
            side.seconds.iter().partition(|second| touched(second.from_ns, second.to_ns) > 0);
        let ends = side.samples.first().zip(side.samples.last());
        let (from_ns, to_ns) = ends.map_or((0, 0), |(first, last)| (first.at_ns, last.at_ns));
        let time_share = touched(from_ns, to_ns) as f64 / (to_ns - from_ns).max(SECOND_NS) as f64;
        Ok(Self {
            count: checkpoints.len(),
            time_share: time_share.min(1.0),
            under_ms: mean_ms(&under),
            beside_ms: mean_ms(&beside),
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
