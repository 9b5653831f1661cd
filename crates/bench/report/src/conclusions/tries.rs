//! How often a rate was tried in a search, and how often it held.

use plimsoll_measure::line::{Line, Probe, Stage};

/// Rates closer than this share are the same: they were scaled from operations to documents.
const SAME: f64 = 1e-3;

/// The tries of one rate that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    held: u64,
    failed: u64,
}

impl Tries {
    /// The tries of `rate` in `line`.
    pub(super) fn of(line: &Line, rate: f64) -> Self {
        at(line, rate).fold(Self::default(), |tries, probe| Self {
            held: tries.held + u64::from(probe.held),
            failed: tries.failed + u64::from(!probe.held),
        })
    }

    /// That the rate held: `held all 3 times it was tried`.
    pub(super) fn held(self) -> String {
        times("held", self.held, self.held + self.failed)
    }

    /// That the rate failed: `failed in 2 of the 3 times it was tried`.
    pub(super) fn failed(self) -> String {
        times("failed", self.failed, self.held + self.failed)
    }
}

/// The lowest rate that failed, if it lies between the ends of the interval.
pub(super) fn failed_between(line: &Line) -> Option<f64> {
    let (low, high) = (line.low?, line.high?);
    let failed = judged(line).filter(|probe| !probe.held).map(|probe| probe.rate);
    let lowest = failed.min_by(f64::total_cmp)?;
    (lowest > low * (1.0 + SAME) && lowest < high * (1.0 - SAME)).then_some(lowest)
}

/// The probes of `rate` that were judged, in order.
pub(crate) fn at(line: &Line, rate: f64) -> impl DoubleEndedIterator<Item = &Probe> {
    let is_same = move |probe: &&Probe| (probe.rate - rate).abs() <= rate * SAME;
    judged(line).filter(is_same)
}

fn judged(line: &Line) -> impl DoubleEndedIterator<Item = &Probe> {
    line.probes.iter().filter(|probe| probe.stage != Stage::WarmUp)
}

fn times(what: &str, count: u64, tries: u64) -> String {
    match (count, tries) {
        (_, 0) => what.to_owned(),
        (1, 1) => format!("{what} the one time it was tried"),
        (all, tries) if all == tries => format!("{what} all {tries} times it was tried"),
        (some, tries) => format!("{what} in {some} of the {tries} times it was tried"),
    }
}
