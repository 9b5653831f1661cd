//! Finds change points by E-divisive means, and sizes them by the medians of the segments on both sides.
//!
//! Source: Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", 2014.
//! MongoDB's performance team uses the method as well: Daly and others, "The Use of Change Point Detection to Identify Software
//! Performance Regressions in a Continuous Integration System", 2020.
//!
//! The strongest split of all segments is tested by shuffling the values of each segment many times. p is the
//! share of orders whose strongest split is at least as strong; the measured order counts too. A split with a
//! small p stays, and the search goes on in the new segments. The search ends with the first split that noise
//! alone explains. The only assumption about the noise is that runs of one level could have come in any
//! order. A median does not move with a single outlier.

use std::ops::Range;

use super::form::Settings;
use crate::comparison::MIN_EFFECT;
use crate::comparison::sign_flip::ALPHA;
use crate::matrix::Spread;
use crate::random::Random;

/// The fewest runs of a level. Two levels of five runs give a p of 2 ÷ 252 at best; fewer runs never reach p ≤ 0.01.
const SEGMENT_MIN: u32 = 5;
/// The number of shuffled orders.
const PERMUTATIONS: u32 = 999;
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
    /// The number of values before it.
    pub at: usize,
    /// The probability of so strong a split if the order within the segment did not matter.
    pub p: f64,
}

/// The places where `values` change, in order.
pub fn splits(values: &[f64], settings: &Settings) -> Vec<Split> {
    let mut random = Random::new(settings.seed);
    let mut found: Vec<Split> = Vec::new();
    loop {
        let segments = segments(&found, values.len());
        let Some((at, strength)) = strongest(values, &segments, settings) else { return found };
        let Some(p) = p_of(strength, values, &segments, settings, &mut random) else { return found };
        found.push(Split { at, p });
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

/// The strongest split of all segments: its position and its strength.
fn strongest(values: &[f64], segments: &[Range<usize>], settings: &Settings) -> Option<(usize, f64)> {
    let of = |segment: &Range<usize>| {
        let (at, strength) = best(&values[segment.clone()], settings.segment_min as usize)?;
        Some((segment.start + at, strength))
    };
    segments.iter().filter_map(of).max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The p of a split of that strength; nothing if it is too large.
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
        let other = strongest(&shuffled, segments, settings).map_or(0.0, |(_, strength)| strength);
        as_strong += if other >= strength * (1.0 - TIE) { 1.0 } else { 0.0 };
        if as_strong / orders > settings.alpha {
            return None;
        }
    }
    // A small number of orders cannot give a small p.
    Some(as_strong / orders).filter(|p| *p <= settings.alpha)
}

/// Puts `values` into a random order (Fisher and Yates).
fn shuffle(values: &mut [f64], random: &mut Random) {
    for last in (1..values.len()).rev() {
        let place = (u128::from(random.bits()) * (last as u128 + 1)) >> 64;
        values.swap(last, place as usize);
    }
}

/// The strongest split of `values` into two parts of at least `least` values: the number of values before the
/// split, and its strength. Nothing if there are too few values, or all values are equal.
///
/// The strength is the energy statistic of Székely and Rizzo with the exponent 1: twice the mean distance between a value of
/// one part and a value of the other, less the mean distance within each part. In the long run it is zero if both parts follow
/// one law, and grows with any difference. The weight m·n ÷ (m + n) makes splits of different sizes comparable.
///
/// The second part need not reach the end: if a level changes and returns, the values after its return would hide the change.
fn best(values: &[f64], least: usize) -> Option<(usize, f64)> {
    // A part of one value has no distances within it.
    let least = least.max(2);
    // The sums of distances within the first n values, and within the values from each position up to the current one.
    let (mut first, mut from) = (vec![0.0], vec![0.0; values.len()]);
    let mut best: Option<(usize, f64)> = None;
    for (last, value) in values.iter().enumerate() {
        let mut sum = 0.0;
        for start in (0..last).rev() {
            sum += (values[start] - value).abs();
            from[start] += sum;
        }
        first.push(from[0]);
        let end = last + 1;
        let splits = (least..=end.saturating_sub(least))
            .map(|at| (at, strength(first[at], from[at], first[end], [at, end - at])));
        best = best.into_iter().chain(splits.filter(|it| it.1 > 0.0)).reduce(stronger);
    }
    best
}

/// The stronger of two splits; the first if they are equally strong.
fn stronger(one: (usize, f64), other: (usize, f64)) -> (usize, f64) {
    if other.1 > one.1 { other } else { one }
}

/// The strength of a split into m and n values, by the sums of distances within each part and within both together.
fn strength(left: f64, right: f64, both: f64, [m, n]: [usize; 2]) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let between = (both - left - right) / (m * n);
    let own = left / (m * (m - 1.0)) + right / (n * (n - 1.0));
    m * n / (m + n) * 2.0 * (between - own)
}

/// The medians of the segments that `splits` cut `values` into; nothing for a segment without values.
pub(super) fn levels(values: &[f64], splits: &[Split]) -> Vec<f64> {
    let median = |segment: Range<usize>| Spread::of(values[segment].iter().copied()).map(|it| it.median);
    segments(splits, values.len()).into_iter().filter_map(median).collect()
}

/// The splits at which the level changes by at least the share `min_effect`. The smallest change is removed first and
/// its segments merge, so that a drift in many small steps is reported in fewer, larger ones.
pub(super) fn without_small(values: &[f64], mut splits: Vec<Split>, min_effect: f64) -> Vec<Split> {
    let least = min_effect.ln_1p();
    while let Some(index) =
        smallest(&levels(values, &splits)).filter(|(_, size)| *size < least).map(|it| it.0)
    {
        splits.remove(index);
    }
    splits
}

/// The smallest change between neighbouring levels, as an absolute logarithm, and its index.
fn smallest(levels: &[f64]) -> Option<(usize, f64)> {
    let sizes = levels.iter().zip(levels.iter().skip(1)).map(|(from, to)| (to / from).ln().abs());
    sizes.enumerate().min_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scatter of every value, as a share.
    const NOISE: f64 = 0.03;

    /// One value for each level, with noise.
    fn scattered(seed: u64, levels: &[f64]) -> Vec<f64> {
        let mut random = Random::new(seed);
        levels.iter().map(|level| level * (NOISE * random.normal()).exp()).collect()
    }

    /// The positions at which `values` change.
    fn found(values: &[f64]) -> Vec<usize> {
        let settings = Settings::default();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let kept = without_small(values, splits(&logs, &settings), settings.min_effect);
        kept.into_iter().map(|split| split.at).collect()
    }

    /// Runs at each level.
    fn steps(levels: &[(f64, usize)]) -> Vec<f64> {
        levels.iter().flat_map(|(level, runs)| std::iter::repeat_n(*level, *runs)).collect()
    }

    #[test]
    fn noise_alone_yields_a_change_in_at_most_two_of_a_hundred() {
        let is_changed = |seed: &u64| !found(&scattered(*seed, &steps(&[(100.0, 40)]))).is_empty();
        let wrong: Vec<u64> = (0..100).filter(is_changed).collect();
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
        assert!(alone >= 38, "only {alone} of 40 find no other change");
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
    fn a_single_outlier_is_not_a_change() {
        let mut changed = Vec::new();
        for (seed, factor) in (0..10).flat_map(|seed| [(seed, 0.5), (seed, 2.0)]) {
            for place in [0, 20, 39] {
                let mut values = scattered(seed, &steps(&[(100.0, 40)]));
                values[place] *= factor;
                changed.extend((!found(&values).is_empty()).then_some((seed, factor, place)));
            }
        }
        // Noise alone yields changes as often.
        assert!(changed.len() <= 2, "{changed:?} of 60");
    }

    #[test]
    fn a_drift_is_reported_as_steps_in_its_direction() {
        let drift: Vec<f64> = (0..40).map(|run| 100.0 * 1.01f64.powi(run)).collect();
        let values = scattered(1, &drift);
        let settings = Settings::default();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let splits = without_small(&values, splits(&logs, &settings), settings.min_effect);
        let levels = levels(&values, &splits);
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

    /// The statistic by its definition.
    fn by_definition(one: &[f64], other: &[f64]) -> f64 {
        let mean = |left: &[f64], right: &[f64], pairs: f64| {
            let all = left.iter().flat_map(|a| right.iter().map(move |b| (a - b).abs()));
            all.sum::<f64>() / pairs
        };
        let (m, n) = (one.len() as f64, other.len() as f64);
        let own = mean(one, one, m * (m - 1.0)) + mean(other, other, n * (n - 1.0));
        m * n / (m + n) * (2.0 * mean(one, other, m * n) - own)
    }

    /// The best of all splits and ends by the definition.
    fn every(values: &[f64], least: usize) -> f64 {
        let ends = 2 * least..=values.len();
        let pairs = ends.flat_map(|end| (least..=end - least).map(move |at| (at, end)));
        pairs.map(|(at, end)| by_definition(&values[..at], &values[at..end])).fold(0.0, f64::max)
    }

    #[track_caller]
    fn check(values: &[f64], expected: usize) {
        let (at, strength) = best(values, 2).unwrap();
        assert_eq!(at, expected);
        assert!((every(values, 2) - strength).abs() < 1e-12, "{strength}");
    }

    #[test]
    fn the_strength_of_the_best_split_equals_its_definition() {
        check(&[0.3, 0.1, 0.2, 0.0, 0.9, 1.1, 0.8, 1.0, 0.7], 4);
    }

    #[test]
    fn a_level_that_returns_does_not_hide_its_change() {
        check(&[0.1, 0.0, 0.1, 0.0, 1.0, 1.1, 1.0, 1.1, 0.1, 0.0, 0.1, 0.0], 4);
    }

    #[test]
    fn equal_values_and_too_few_values_have_no_split() {
        assert_eq!(best(&[1.0; 20], 5), None);
        assert_eq!(best(&[1.0, 1.0, 1.0, 2.0, 2.0], 3), None);
        assert_eq!(best(&[], 5), None);
    }

    fn split(at: usize) -> Split {
        Split { at, p: 0.001 }
    }

    #[test]
    fn a_level_is_the_median_of_its_runs() {
        let values = [1.0, 9.0, 2.0, 4.0, 6.0];
        assert_eq!(levels(&values, &[split(3)]), [2.0, 5.0]);
        assert_eq!(levels(&values, &[]), [4.0]);
        assert!(levels(&[], &[]).is_empty());
    }

    #[test]
    fn changes_below_the_minimum_are_dropped_and_small_ones_add_up() {
        let values: Vec<f64> =
            [100.0, 102.0, 104.0, 106.0].into_iter().flat_map(|level| [level; 5]).collect();
        let all = vec![split(5), split(10), split(15)];
        let kept = without_small(&values, all.clone(), 0.03);
        assert!(!kept.is_empty() && kept.len() < all.len(), "{kept:?}");
        assert!(smallest(&levels(&values, &kept)).unwrap().1 >= 0.03f64.ln_1p());
        assert_eq!(without_small(&values, all.clone(), 0.0), all);
        assert!(without_small(&values, all, 0.2).is_empty());
    }
}
