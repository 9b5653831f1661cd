//! Compares the slow seconds of a rate with its calm ones: a resource that causes slow seconds is at its limit in them.
//!
//! Only seconds of the same trial are compared, so a resource that merely follows the rate shows nothing. The
//! null distribution comes from rotations: the seconds of each trial are turned in a circle against its slow
//! seconds, by a random distance. A rotation is a permutation with the longest possible blocks. It keeps
//! every run of slow seconds and every run of seconds at the limit, so neighbours that resemble each other do
//! not look like evidence. Holm's procedure corrects for the number of resources.

use plimsoll_measure::line::Timing;
use plimsoll_measure::random::Random;

use super::level::Level;
use super::{Observation, Rule};

/// The number of random rotations of all trials.
const ROTATIONS: usize = 1_999;
/// Rotated sums this close to the observed one count as equal: the order of a sum changes its last digits.
const ROUNDING: f64 = 1e-9;
/// The largest probability of a chance finding, over all resources together. Rotations of a few seconds are a little liberal: with
/// bursts of three seconds, 0.05 names an innocent resource in 5.6 % of the simulated searches.
const SIGNIFICANT: f64 = 0.02;
/// A resource that explains a smaller share of the slow time is no bottleneck.
const EXPLAINED_MIN: f64 = 0.10;
/// Fewer slow seconds, or fewer calm ones, cannot clear a resource.
const CLEARING_S_MIN: u64 = 5;
/// A resource that is nearly always or nearly never at its limit cannot be cleared: its slow and calm seconds are alike.
const CLEARING_SHARE: std::ops::RangeInclusive<f64> = 0.1..=0.9;
/// A cleared resource is at its limit at most this much more often in slow time.
const CLEARING_LIFT_MAX: f64 = 1.1;

/// The seconds of one trial: whether each was slow, and the share of it in which the resource was at its limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stratum {
    pub(super) slow: Vec<bool>,
    pub(super) share: Vec<f64>,
}

/// The timing of each rule's resource over all trials, in the order of the rules. None for a resource that was not observed, or
/// if no trial has slow and calm seconds.
pub fn timings(rules: &[Rule], trials: &[&Observation], seed: u64) -> Vec<Option<Timing>> {
    let strata = |rule: &Rule| -> Vec<Stratum> {
        let of = |trial: &&Observation| stratum(trial, &(rule.levels?)(trial).ok()?);
        trials.iter().filter_map(of).collect()
    };
    let strata: Vec<_> = rules.iter().map(strata).collect();
    timed(&strata, seed)
}

/// The timing of each resource, whose strata are given.
pub(super) fn timed(resources: &[Vec<Stratum>], seed: u64) -> Vec<Option<Timing>> {
    let mut timings: Vec<_> = resources.iter().map(|strata| compare(strata, seed)).collect();
    holm(&mut timings);
    timings
}

/// A trial with slow and calm seconds; none for another. A second without a level counts as an average one.
fn stratum(trial: &Observation, levels: &[Level]) -> Option<Stratum> {
    let slow: Vec<bool> = trial.seconds.iter().map(|second| second.is_slow).collect();
    if !slow.contains(&true) || !slow.contains(&false) {
        return None;
    }
    let shares: Vec<_> = trial.seconds.iter().map(|it| share(levels, it.from_ns, it.to_ns)).collect();
    let seen: Vec<f64> = shares.iter().copied().flatten().collect();
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    let share = shares.into_iter().map(|share| share.unwrap_or(mean)).collect();
    (!seen.is_empty()).then_some(Stratum { slow, share })
}

/// The share of a span in which the resource was at its limit; none if no level covers any of it.
fn share(levels: &[Level], from_ns: u64, to_ns: u64) -> Option<f64> {
    let overlap = |level: &Level| level.to_ns.min(to_ns).saturating_sub(level.from_ns.max(from_ns)) as f64;
    let covered: f64 = levels.iter().map(overlap).sum();
    let at_limit: f64 = levels.iter().map(|level| overlap(level) * level.share).sum();
    (covered > 0.0).then(|| at_limit / covered)
}

/// Compares slow with calm seconds; `p` is not corrected yet, and absent for a resource that never changed within a trial.
fn compare(strata: &[Stratum], seed: u64) -> Option<Timing> {
    let count = |slow| strata.iter().flat_map(|it| &it.slow).filter(|it| **it == slow).count() as u64;
    let (slow_s, calm_s) = (count(true), count(false));
    if slow_s == 0 || calm_s == 0 {
        return None;
    }
    let in_slow: f64 = strata.iter().map(|it| rotated(it, 0)).sum();
    let in_all: f64 = strata.iter().flat_map(|it| &it.share).sum();
    let (slow, calm) = (in_slow / slow_s as f64, (in_all - in_slow).max(0.0) / calm_s as f64);
    Some(Timing {
        slow_s,
        calm_s,
        slow,
        calm,
        lift: (calm > 0.0).then(|| slow / calm),
        explained: (slow - calm).max(0.0),
        p: strata.iter().any(varies).then(|| probability(strata, in_slow, seed)),
    })
}

fn varies(stratum: &Stratum) -> bool {
    stratum.share.iter().any(|share| (share - stratum.share[0]).abs() > ROUNDING)
}

/// The sum of the shares of the slow seconds, with all seconds turned by `shift`.
fn rotated(Stratum { slow, share }: &Stratum, shift: usize) -> f64 {
    let turned = share.iter().cycle().skip(shift);
    slow.iter().zip(turned).filter(|(slow, _)| **slow).map(|(_, share)| share).sum()
}

/// The probability that rotated trials show as much time at the limit in slow seconds as the observed ones.
fn probability(strata: &[Stratum], observed: f64, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let mut turn = |stratum: &Stratum| {
        let shift = (random.unit() * stratum.share.len() as f64) as usize;
        rotated(stratum, shift)
    };
    let reaches = (0..ROTATIONS).filter(|_| strata.iter().map(&mut turn).sum::<f64>() >= observed - ROUNDING);
    (reaches.count() + 1) as f64 / (ROTATIONS + 1) as f64
}

/// Corrects the probabilities for the number of tested resources (Holm, A simple sequentially rejective multiple test
/// procedure, 1979).
fn holm(timings: &mut [Option<Timing>]) {
    let mut tested: Vec<&mut f64> = timings.iter_mut().flatten().filter_map(|it| it.p.as_mut()).collect();
    tested.sort_by(|a, b| a.total_cmp(b));
    let (count, mut largest) = (tested.len(), 0.0_f64);
    for (rank, p) in tested.into_iter().enumerate() {
        largest = largest.max((*p * (count - rank) as f64).min(1.0));
        *p = largest;
    }
}

/// Whether slow time is explained by the resource, beyond chance.
pub fn shows(timing: &Timing) -> bool {
    timing.p.is_some_and(|p| p <= SIGNIFICANT) && timing.explained >= EXPLAINED_MIN
}

/// Whether the resource is innocent: it was at its limit for some of the time, and as often in calm as in slow time.
pub fn clears(timing: &Timing) -> bool {
    let (slow_s, calm_s) = (timing.slow_s as f64, timing.calm_s as f64);
    let overall = (timing.slow * slow_s + timing.calm * calm_s) / (slow_s + calm_s);
    timing.slow_s.min(timing.calm_s) >= CLEARING_S_MIN
        && CLEARING_SHARE.contains(&overall)
        && timing.slow <= timing.calm * CLEARING_LIFT_MAX
}

#[cfg(test)]
#[path = "timing/tests.rs"]
mod tests;
