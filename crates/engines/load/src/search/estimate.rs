//! Estimates the load line from trials at several rates: the rate at which the mean excess of a second reaches one.
//!
//! Stalls and checkpoints affect all seconds of a trial together, so trials and not seconds are the unit of
//! the bootstrap. Rare events need more than a bootstrap, which cannot draw events that hardly happened. So
//! the lower end also reaches down to the highest rate that enough good trials support, and to the estimate with
//! one bad trial more than was seen. The constants are chosen so that the interval covers the true rate of
//! simulated servers of every shape, see the tests.

use plimsoll_measure::random::Random;

use super::curve::{Bracket, Curve, curves};
use super::trial::Trial;

/// The confidence of the interval.
pub const CONFIDENCE: f64 = 0.9;
/// The number of bootstrap samples of an estimate.
const SAMPLES: usize = 200;
/// The share of the samples on either side of the interval. Smaller than 5 %: a search has few trials, and their bootstrap
/// spreads less than searches do.
const TAIL: f64 = 0.02;
/// The accepted chance that a rate is too high although no trial showed it.
const UNSEEN: f64 = 0.05;
/// Rare events that happened this often are no longer rare.
const OFTEN: usize = 8;
/// The floors that are tried for the estimate: below one, so that some rate holds.
const FLOORS: &[f64] = &[0.0, 0.3, 0.6, 0.85];
/// The floors that are tried for the lower end.
const FLOORS_LOW: &[f64] = &[0.0, 0.3, 0.6, 0.85, 1.2, 2.0, 4.0, 8.0];
/// The smallest change that counts as a drift.
const DRIFT_MIN: f64 = 0.03;
/// The smallest number of reference trials with the same result before a drift, and after it.
const REFERENCES_MIN: usize = 2;
/// From this excess on, the last reference trial needs no second one to prove a drift.
const CLEAR: f64 = 10.0;

/// An estimated load line, in operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The rate at which the mean excess reaches one.
    pub rate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end; none if no rate exceeds a bound.
    pub high: Option<f64>,
}

/// The bracket of all trials: the lowest of all bounds.
pub fn bracket(trials: &[Trial]) -> Bracket {
    let all = curves(trials);
    bracket_of(&all, &ones(&all))
}

/// The crossing without an interval, near a first guess.
pub fn crossing(trials: &[Trial], near: f64) -> f64 {
    let all: Vec<Curve> = curves(trials).into_iter().filter(Curve::crosses).collect();
    let weights = ones(&all);
    lowest(all.iter().map(|curve| curve.crossing(&weights, near, None, FLOORS).0))
}

/// Estimates the load line with its interval; none if no trial held.
pub fn estimate(trials: &[Trial], seed: u64) -> Option<Estimate> {
    let found = bracket(trials);
    let held = trials.iter().filter(|trial| trial.held()).map(|trial| trial.rate);
    let low = found.low.or_else(|| held.reduce(f64::min))?;
    let Some(high) = found.high else { return Some(Estimate { rate: low, low, high: None }) };
    let all: Vec<Curve> = curves(trials).into_iter().filter(Curve::crosses).collect();
    let weights = ones(&all);
    let near = crossing(trials, (low * high).sqrt());
    let fits: Vec<_> = all.iter().map(|curve| curve.crossing(&weights, near, None, FLOORS)).collect();
    let rate = lowest(fits.iter().map(|fit| fit.0));
    let sampled = |curves: &[Curve], floors: &[f64], weights: &[f64]| {
        let lines =
            curves.iter().zip(&fits).map(|(it, fit)| it.crossing(weights, near, Some(fit.1), floors).0);
        lowest(lines)
    };
    let unlucky: Vec<Curve> = curves(&with_one_more(trials)).into_iter().filter(Curve::crosses).collect();
    let lows = bootstrap(unlucky.first().map_or(0, Curve::len), SAMPLES, seed, |weights| {
        sampled(&unlucky, FLOORS_LOW, weights)
    });
    let highs = bootstrap(weights.len(), SAMPLES, !seed, |weights| sampled(&all, FLOORS, weights));
    let lowest_tried = lowest(trials.iter().map(|trial| trial.rate));
    let supported = supported(trials, rate).unwrap_or(lowest_tried);
    let high = at(&highs, 1.0 - TAIL).max(refuted(trials, seed, SAMPLES)).max(high);
    Some(Estimate {
        rate,
        low: at(&lows, TAIL).min(supported).min(low).min(rate),
        high: Some(high.max(rate)),
    })
}

/// The highest rate that enough good trials support; none if there are too few.
///
/// Where good and bad trials alternate, a rate that is too high shows it only in some trials, for example in
/// those with a checkpoint. So a rate below the lowest bad rate needs more good seconds than chance alone
/// would give.
pub fn supported(trials: &[Trial], rate: f64) -> Option<f64> {
    let needed = match mixed(trials) {
        // Bad trials happened often enough for the bootstrap to know their frequency.
        Some(mixed) if mixed.bad >= OFTEN => 0.0,
        Some(mixed) => UNSEEN.ln() / (1.0 - mixed.chance).ln() * mixed.seconds,
        None => 0.0,
    };
    let lowest_bad = lowest(trials.iter().filter(|trial| !trial.held()).map(|trial| trial.rate));
    let mut below: Vec<&Trial> =
        trials.iter().filter(|it| it.held() && it.rate <= lowest_bad.min(rate)).collect();
    below.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let mut seen = 0.0;
    let enough = below.into_iter().find(|trial| {
        seen += trial.blocks.len() as f64;
        seen >= needed
    });
    enough.map(|trial| trial.rate)
}

/// The rates between which good and bad trials alternate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    /// The lowest rate of a bad trial.
    pub low: f64,
    /// The highest rate of a good trial.
    pub high: f64,
    /// The number of bad trials between the two rates.
    bad: usize,
    /// The share of bad trials among all trials between the two rates.
    chance: f64,
    /// The mean length of these trials, in seconds.
    seconds: f64,
}

/// Where good and bad trials alternate; none if every good trial has a lower rate than every bad one.
pub fn mixed(trials: &[Trial]) -> Option<Mixed> {
    let (good, bad): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| trial.held());
    let low = lowest(bad.iter().map(|trial| trial.rate));
    let high = good.iter().map(|trial| trial.rate).fold(0.0, f64::max);
    let between = |trial: &&Trial| (low..=high).contains(&trial.rate);
    let count = trials.iter().filter(between).count() as f64;
    let seconds: usize = trials.iter().filter(between).map(|trial| trial.blocks.len()).sum();
    let bad = bad.into_iter().filter(between).count();
    let chance = bad as f64 / (count + 1.0);
    (low < high).then_some(Mixed { low, high, bad, chance, seconds: seconds as f64 / count })
}

/// The lowest rate that enough bad trials refute: the upper end of the isotonic crossing over bootstrap samples. The highest
/// tried rate if there are too few.
pub fn refuted(trials: &[Trial], seed: u64, samples: usize) -> f64 {
    let highest = trials.iter().map(|trial| trial.rate).fold(0.0, f64::max);
    let all = curves(trials);
    let count = all.first().map_or(0, Curve::len);
    let highs = bootstrap(count, samples, seed, |weights| bracket_of(&all, weights).high.unwrap_or(highest));
    at(&highs, 1.0 - TAIL)
}

/// The load lines of the first and of the second half of `near`, the trials around the estimate, if the line
/// moved. The line moved if the reference rate held at first and failed at last, or the reverse. `climb` has
/// the trials before them, which belong to both.
pub fn drift(climb: &[Trial], near: &[Trial], reference: f64, rate: f64) -> Option<(f64, f64)> {
    let references: Vec<&Trial> = near.iter().filter(|trial| trial.rate == reference).collect();
    let held: Vec<bool> = references.iter().map(|trial| trial.held()).collect();
    let changed = held.iter().position(|it| *it != held[0])?;
    let is_change = held[changed..].iter().all(|it| *it != held[0]);
    let is_clear = references.last().is_some_and(|last| last.excess() >= CLEAR);
    let is_certain = changed >= REFERENCES_MIN && (held.len() - changed >= REFERENCES_MIN || is_clear);
    let (first, second) = near.split_at(near.len() / 2);
    let [first, second] = [first, second].map(|half| crossing(&[climb, half].concat(), rate));
    // If the reference rate held at first, the line must have fallen; otherwise it must have risen.
    let agrees = first.is_finite() && second.is_finite() && (first > second) == held[0];
    (is_change && is_certain && agrees && (second / first - 1.0).abs() >= DRIFT_MIN)
        .then_some((first, second))
}

/// The trials and a copy of the bad trial at the lowest rate, if good trials lie above it. Rare events that
/// do not depend on the rate may be more frequent than the few that were seen.
fn with_one_more(trials: &[Trial]) -> Vec<Trial> {
    let bad = trials.iter().filter(|trial| !trial.held()).min_by(|a, b| a.rate.total_cmp(&b.rate));
    let rare = bad.filter(|bad| trials.iter().any(|trial| trial.held() && trial.rate > bad.rate));
    trials.iter().chain(rare).cloned().collect()
}

fn bracket_of(curves: &[Curve], weights: &[f64]) -> Bracket {
    let both = curves.iter().map(|curve| curve.bracket(weights)).reduce(|a, b| Bracket {
        low: a.low.zip(b.low).map(|(a, b)| a.min(b)),
        high: a.high.into_iter().chain(b.high).reduce(f64::min),
    });
    both.unwrap_or_default()
}

/// A statistic of each sample of the Bayesian bootstrap (Rubin, 1981), in order: every trial keeps a part in every sample.
fn bootstrap(trials: usize, samples: usize, seed: u64, statistic: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut values: Vec<f64> = (0..samples)
        .map(|_| {
            let weights: Vec<f64> = (0..trials).map(|_| -(1.0 - random.unit()).ln()).collect();
            statistic(&weights)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

fn ones(curves: &[Curve]) -> Vec<f64> {
    vec![1.0; curves.first().map_or(0, Curve::len)]
}

fn lowest(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(f64::INFINITY, f64::min)
}

/// The value at a share of sorted values; NaN without values.
fn at(sorted: &[f64], share: f64) -> f64 {
    let index = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
