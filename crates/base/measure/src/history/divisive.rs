//! Change points by E-divisive means (Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis of
//! Multivariate Data", 2014), as MongoDB's own performance team uses it (Daly and others, "The Use of Change Point
//! Detection to Identify Software Performance Regressions in a Continuous Integration System", 2020).
//!
//! The strongest split of all segments is held against the strongest one after the values of each segment were put into
//! another order, many times: p is the share of orders that give a split at least as strong, the measured order counted
//! as one of them. While p is small enough the split stays and the search goes on in the segments that it leaves; with
//! the first one that noise would give as well it ends. Nothing is assumed about the shape of the noise but that runs of
//! one level could have come in any order.

use std::ops::Range;

use super::energy::best;
use super::form::Settings;
use crate::comparison::MIN_EFFECT;
use crate::comparison::sign_flip::ALPHA;
use crate::random::Random;

/// A level has at least so many runs: fewer than two times five could not show anything at p ≤ 0.01 (of 10 values in two
/// halves the smallest p is 2 ÷ 252).
pub const SEGMENT_MIN: u32 = 5;
/// Orders that the measured one is held against.
pub const PERMUTATIONS: u32 = 999;
/// Strengths that differ by less than this share are equal: they differ by rounding alone.
const TIE: f64 = 1e-9;

impl Default for Settings {
    fn default() -> Self {
        Self {
            alpha: ALPHA,
            min_effect: MIN_EFFECT,
            segment_min: SEGMENT_MIN,
            permutations: PERMUTATIONS,
            seed: 0,
        }
    }
}

/// A place where a series changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// So many values come before it.
    pub at: usize,
    /// How likely so strong a split would be if the order within the segment did not matter.
    pub p: f64,
}

/// The places where `values` change, in order.
pub fn splits(values: &[f64], settings: &Settings) -> Vec<Split> {
    let mut random = Random::new(settings.seed);
    let mut found: Vec<Split> = Vec::new();
    loop {
        let segments = segments(&found, values.len());
        let Some(strongest) = strongest(values, &segments, settings) else { return found };
        let Some(p) = p_of(strongest.strength, values, &segments, settings, &mut random) else {
            return found;
        };
        found.push(Split { at: strongest.at, p });
        found.sort_by_key(|split| split.at);
    }
}

/// The stretches that `found` cuts `count` values into.
pub(super) fn segments(found: &[Split], count: usize) -> Vec<Range<usize>> {
    let places = || found.iter().map(|split| split.at);
    let starts = std::iter::once(0).chain(places());
    let ends = places().chain(std::iter::once(count));
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// A split that was not tested yet.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    strength: f64,
}

fn strongest(values: &[f64], segments: &[Range<usize>], settings: &Settings) -> Option<Candidate> {
    let of = |segment: &Range<usize>| {
        let (at, strength) = best(&values[segment.clone()], settings.segment_min as usize)?;
        Some(Candidate { at: segment.start + at, strength })
    };
    segments.iter().filter_map(of).max_by(|one, other| one.strength.total_cmp(&other.strength))
}

/// The p of a split of that strength; nothing as soon as it is certain to be too large.
fn p_of(
    strength: f64,
    values: &[f64],
    segments: &[Range<usize>],
    settings: &Settings,
    random: &mut Random,
) -> Option<f64> {
    let orders = f64::from(settings.permutations) + 1.0;
    let mut shuffled = values.to_vec();
    let mut as_strong = 1.0;
    for _ in 0..settings.permutations {
        for segment in segments {
            shuffle(&mut shuffled[segment.clone()], random);
        }
        let other = strongest(&shuffled, segments, settings).map_or(0.0, |it| it.strength);
        as_strong += if other >= strength * (1.0 - TIE) { 1.0 } else { 0.0 };
        if as_strong / orders > settings.alpha {
            return None;
        }
    }
    // Too few orders cannot give a p that small.
    Some(as_strong / orders).filter(|p| *p <= settings.alpha)
}

/// Puts `values` into a random order (Fisher and Yates).
fn shuffle(values: &mut [f64], random: &mut Random) {
    for last in (1..values.len()).rev() {
        let place = (u128::from(random.bits()) * (last as u128 + 1)) >> 64;
        values.swap(last, place as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::levels::told;

    /// The scatter of every value, as a share.
    const NOISE: f64 = 0.03;

    /// A value a level, give or take the noise.
    fn scattered(seed: u64, levels: &[f64]) -> Vec<f64> {
        let mut random = Random::new(seed);
        levels.iter().map(|level| level * (NOISE * random.normal()).exp()).collect()
    }

    /// The positions at which `values` change.
    fn found(values: &[f64]) -> Vec<usize> {
        let settings = Settings::default();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let told = told(values, splits(&logs, &settings), settings.min_effect);
        told.into_iter().map(|split| split.at).collect()
    }

    /// So many runs at each level.
    fn steps(levels: &[(f64, usize)]) -> Vec<f64> {
        levels.iter().flat_map(|(level, runs)| std::iter::repeat_n(*level, *runs)).collect()
    }

    #[test]
    fn noise_alone_is_told_as_a_change_in_at_most_two_of_a_hundred() {
        let told = |seed: &u64| !found(&scattered(*seed, &steps(&[(100.0, 40)]))).is_empty();
        let wrong: Vec<u64> = (0..100).filter(told).collect();
        assert!(wrong.len() <= 2, "seeds {wrong:?}");
    }

    #[test]
    fn a_step_of_ten_percent_is_found_within_two_runs() {
        let mut alone = 0;
        for (seed, after) in (0..20).flat_map(|seed| [(seed, 90.0), (seed, 110.0)]) {
            let found = found(&scattered(seed, &steps(&[(100.0, 20), (after, 20)])));
            assert!(found.iter().any(|at| at.abs_diff(20) <= 2), "seed {seed}, to {after}: {found:?}");
            alone += usize::from(found.len() == 1);
        }
        assert!(alone >= 38, "{alone} of 40 tell nothing else");
    }

    #[test]
    fn two_steps_are_both_found() {
        for (seed, last) in (0..4).flat_map(|seed| [(seed, 120.0), (seed, 100.0)]) {
            let found = found(&scattered(seed, &steps(&[(100.0, 20), (110.0, 20), (last, 20)])));
            let is_near = |step: usize| found.iter().any(|at| at.abs_diff(step) <= 2);
            assert!(is_near(20) && is_near(40), "seed {seed}, to {last}: {found:?}");
        }
    }

    #[test]
    fn one_run_that_stands_out_is_no_change() {
        let mut told = Vec::new();
        for (seed, factor) in (0..10).flat_map(|seed| [(seed, 0.5), (seed, 2.0)]) {
            for place in [0, 20, 39] {
                let mut values = scattered(seed, &steps(&[(100.0, 40)]));
                values[place] *= factor;
                told.extend((!found(&values).is_empty()).then_some((seed, factor, place)));
            }
        }
        // As often as noise alone is.
        assert!(told.len() <= 2, "{told:?} of 60");
    }

    #[test]
    fn a_drift_is_told_as_steps_that_all_go_its_way() {
        let drift: Vec<f64> = (0..40).map(|run| 100.0 * 1.01f64.powi(run)).collect();
        let values = scattered(1, &drift);
        let settings = Settings::default();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let splits = told(&values, splits(&logs, &settings), settings.min_effect);
        let levels = crate::history::levels::levels(&values, &splits);
        assert!(splits.len() >= 2 && levels.is_sorted(), "{splits:?} {levels:?}");
    }

    #[test]
    fn the_same_values_give_the_same_answer_and_p_is_never_zero() {
        let logs: Vec<f64> =
            scattered(3, &steps(&[(100.0, 20), (200.0, 20)])).iter().map(|value| value.ln()).collect();
        let settings = Settings::default();
        let found = splits(&logs, &settings);
        assert_eq!(found, splits(&logs, &settings));
        assert_eq!(found[0].p, 1.0 / 1_000.0);
        let few = Settings { permutations: 50, ..settings };
        assert!(splits(&logs, &few).is_empty(), "1 in 51 is more than 1 in 100");
    }

    #[test]
    fn fewer_values_than_two_segments_have_no_split() {
        assert!(splits(&[0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0], &Settings::default()).is_empty());
        assert!(splits(&[], &Settings::default()).is_empty());
    }
}
