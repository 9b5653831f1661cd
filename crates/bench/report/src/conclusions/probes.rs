//! Counts how often a rate held in a search.

use plimsoll_measure::line::Line;

use crate::derived::{SAME, judged, probes_at};

/// The judged trials of one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trials {
    held: u64,
    failed: u64,
}

impl Trials {
    /// The trials of `rate` in `line`.
    pub(super) fn of(line: &Line, rate: f64) -> Self {
        probes_at(line, rate).fold(Self::default(), |trials, probe| Self {
            held: trials.held + u64::from(probe.held),
            failed: trials.failed + u64::from(!probe.held),
        })
    }

    /// How often the rate held: `held all 3 times it was tried`.
    pub(super) fn held(self) -> String {
        times("held", self.held, self.held + self.failed)
    }

    /// How often the rate failed: `failed in 2 of the 3 times it was tried`.
    pub(super) fn failed(self) -> String {
        times("failed", self.failed, self.held + self.failed)
    }
}

/// The lowest rate that failed, if it lies inside the interval.
pub(super) fn failed_between(line: &Line) -> Option<f64> {
    let (low, high) = (line.low?, line.high?);
    let failed = judged(line).filter(|probe| !probe.held).map(|probe| probe.rate);
    let lowest = failed.min_by(f64::total_cmp)?;
    (lowest > low * (1.0 + SAME) && lowest < high * (1.0 - SAME)).then_some(lowest)
}

fn times(verb: &str, count: u64, trials: u64) -> String {
    match (count, trials) {
        (_, 0) => verb.to_owned(),
        (1, 1) => format!("{verb} the one time it was tried"),
        (all, trials) if all == trials => format!("{verb} all {trials} times it was tried"),
        (some, trials) => format!("{verb} in {some} of the {trials} times it was tried"),
    }
}
