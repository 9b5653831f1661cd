//! Tests paired log ratios by sign-flip permutation, and inverts the test for an interval.
//!
//! If A and B are equal, each log ratio could as well have the opposite sign. The two-sided p is the share of all sign flips
//! whose sum is at least as far from zero as the measured sum (Fisher, "The Design of Experiments", 1935, section 21). For more
//! than [`PAIRS_EXACT`] pairs the sign flips are sampled. The measured signs count as one sample, so p is never zero (Phipson
//! and Smyth, 2010).
//!
//! The interval holds every ratio that the same test does not reject. Let F be a set of pairs, with differences d − δ. Flipping
//! F keeps the sum at least as far from zero exactly if δ lies between the mean of F and the mean of the other pairs. So each
//! split of the pairs into two groups votes for the range between their means, and p at δ is the share of ranges that hold δ.
//! The ends of the interval are therefore order statistics of the ends of these ranges. No search is needed, and the interval
//! and p never contradict each other.

use crate::random::Random;

/// The largest p of a shown difference.
pub const ALPHA: f64 = 0.01;
/// The fewest pairs. The smallest p of 8 pairs is 2 ÷ 2^8 = 0.0078; seven pairs reach 0.0156 at best.
pub const PAIRS_MIN: usize = 8;
/// More pairs than this are refused.
pub const PAIRS_MAX: usize = 200;
/// Up to this number of pairs all sign flips are tested; beyond it, a sample.
pub const PAIRS_EXACT: usize = 20;
/// The number of sampled sign flips, the measured one included.
pub const SAMPLES: usize = 100_000;
/// Sums that differ by less than this share of the largest difference are equal, because rounding alone explains them.
const TIE: f64 = 1e-9;

/// The evidence of pairs on the ratio of B to A. All values are natural logarithms of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The mean: the logarithm of the ratio of the geometric means.
    pub centre: f64,
    /// The smallest value that the test does not reject at [`ALPHA`].
    pub low: f64,
    /// The largest one.
    pub high: f64,
    /// The probability of at least such a mean if A and B were equal.
    pub p: f64,
    /// The standard deviation of the pairs.
    pub deviation: f64,
}

impl Evidence {
    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Tests the log ratios of pairs. `seed` decides the sample of more than [`PAIRS_EXACT`] pairs. Nothing if there are fewer than
/// [`PAIRS_MIN`] pairs, or a ratio is not finite.
pub fn weigh(pairs: &[f64], seed: u64) -> Option<Evidence> {
    if pairs.len() < PAIRS_MIN || pairs.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut splits = if pairs.len() <= PAIRS_EXACT { every(pairs) } else { some(pairs, seed) };
    let tie = TIE * pairs.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let p = p_at(&splits, 0.0, tie);
    let (low, high) = interval(&mut splits);
    let centre = mean(pairs);
    Some(Evidence { centre, low: low.min(centre), high: high.max(centre), p, deviation: deviation(pairs) })
}

/// The smallest p that so many pairs can give.
pub fn smallest_p(pairs: usize) -> f64 {
    if pairs > PAIRS_EXACT { 1.0 / SAMPLES as f64 } else { 2.0 / 2f64.powi(pairs as i32) }
}

/// The mean of a group and the mean of the other pairs, the smaller one first.
type Split = (f64, f64);

/// The split that flips nothing. Its sum is always as far from zero as the measured one.
const WHOLE: Split = (f64::NEG_INFINITY, f64::INFINITY);

/// Every split into two groups, each once.
fn every(pairs: &[f64]) -> Vec<Split> {
    let total: f64 = pairs.iter().sum();
    // The last pair is never in the group. Otherwise each split would count twice.
    let mut groups = vec![(0, 0.0)];
    for value in &pairs[..pairs.len() - 1] {
        groups.extend_from_within(..);
        let middle = groups.len() / 2;
        groups[middle..].iter_mut().for_each(|(size, sum)| {
            *size += 1;
            *sum += value;
        });
    }
    groups.into_iter().map(|(size, sum)| split(size, sum, pairs.len(), total)).collect()
}

/// The split that flips no sign, and a random sample of all splits.
fn some(pairs: &[f64], seed: u64) -> Vec<Split> {
    let total: f64 = pairs.iter().sum();
    let mut random = Random::new(seed);
    let mut draw = || {
        let (mut size, mut sum) = (0, 0.0);
        for chunk in pairs.chunks(64) {
            let bits = random.bits();
            for (index, value) in chunk.iter().enumerate() {
                if bits >> index & 1 == 1 {
                    size += 1;
                    sum += value;
                }
            }
        }
        split(size, sum, pairs.len(), total)
    };
    std::iter::once(WHOLE).chain((1..SAMPLES).map(|_| draw())).collect()
}

fn split(size: usize, sum: f64, of: usize, total: f64) -> Split {
    if size == 0 || size == of {
        return WHOLE;
    }
    let (within, others) = (sum / size as f64, (total - sum) / (of - size) as f64);
    (within.min(others), within.max(others))
}

/// The share of splits that vote for `value`.
fn p_at(splits: &[Split], value: f64, tie: f64) -> f64 {
    let votes = splits.iter().filter(|(low, high)| (low - tie..=high + tie).contains(&value)).count();
    votes as f64 / splits.len() as f64
}

/// The smallest and the largest value for which more than [`ALPHA`] of all splits vote.
fn interval(splits: &mut [Split]) -> (f64, f64) {
    // This number of votes is too small; one more suffices.
    let few = (ALPHA * splits.len() as f64).floor() as usize;
    let low = splits.select_nth_unstable_by(few, |one, other| one.0.total_cmp(&other.0)).1.0;
    let high = splits.select_nth_unstable_by(few, |one, other| other.1.total_cmp(&one.1)).1.1;
    (low, high)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation, as estimated from a sample.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p by its definition: subtracts `value` from every pair, and tries all 2^n ways to flip the signs.
    fn brute(pairs: &[f64], value: f64) -> f64 {
        let left: Vec<f64> = pairs.iter().map(|pair| pair - value).collect();
        let measured = left.iter().sum::<f64>().abs();
        let ways = 1u32 << left.len();
        let flipped = |way: u32| -> f64 {
            let signed =
                left.iter().enumerate().map(|(index, it)| if way >> index & 1 == 1 { -it } else { *it });
            signed.sum::<f64>().abs()
        };
        let as_far = (0..ways).filter(|way| flipped(*way) >= measured - 1e-12).count();
        as_far as f64 / f64::from(ways)
    }

    fn noise(seed: u64, pairs: usize, shift: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..pairs).map(|_| shift + 0.04 * random.normal()).collect()
    }

    #[test]
    fn p_equals_the_share_over_every_way_to_flip_the_signs() {
        for seed in 0..40 {
            let pairs = noise(seed, 8 + (seed % 5) as usize, 0.02 * (seed % 4) as f64);
            let (found, expected) = (weigh(&pairs, 0).unwrap().p, brute(&pairs, 0.0));
            assert!((found - expected).abs() < 1e-12, "seed {seed}: {found} and not {expected}");
        }
    }

    #[test]
    fn the_differences_of_darwins_maize_have_the_p_that_fisher_found() {
        // Fisher, "The Design of Experiments", section 21: 15 pairs, differences in eighths of an inch; of the 32,768 ways
        // 835 + 28 on each side are as far from zero: 1,726 in all.
        let darwin =
            [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        assert_eq!(weigh(&darwin, 0).unwrap().p, 1_726.0 / 32_768.0);
    }

    #[test]
    fn pairs_in_one_direction_have_the_smallest_p() {
        for count in 8..=20 {
            let pairs: Vec<f64> = (1..=count).map(|index| -f64::from(index)).collect();
            assert_eq!(weigh(&pairs, 0).unwrap().p, smallest_p(count as usize), "{count} pairs");
        }
        assert!(smallest_p(PAIRS_MIN) <= ALPHA && smallest_p(PAIRS_MIN - 1) > ALPHA);
    }

    #[test]
    fn the_interval_ends_exactly_where_the_test_begins_to_reject() {
        for seed in 0..20 {
            let pairs = noise(seed, 8 + (seed % 4) as usize, 0.1);
            let it = weigh(&pairs, 0).unwrap();
            for (inside, outside) in [(it.low + 1e-9, it.low - 1e-9), (it.high - 1e-9, it.high + 1e-9)] {
                assert!(brute(&pairs, inside) > ALPHA, "seed {seed}: {inside} is in {it:?}");
                assert!(brute(&pairs, outside) <= ALPHA, "seed {seed}: {outside} is not in {it:?}");
            }
            assert_eq!(it.p <= ALPHA, it.low > 0.0 || it.high < 0.0, "seed {seed}: {it:?}");
        }
    }

    #[test]
    fn the_interval_contains_the_true_ratio_as_often_as_it_claims() {
        let (trials, truth) = (4_000, 0.3);
        let covers = |seed: u64| {
            let it = weigh(&noise(seed, 10, truth), 0).unwrap();
            it.low <= truth && truth <= it.high
        };
        let covered = (0..trials).filter(|seed| covers(*seed)).count();
        let share = covered as f64 / trials as f64;
        println!("seeds 0 to {trials}: covered {covered} times");
        // 99.02 % by design: 5 of 512 splits may be rejected.
        assert!((0.985..=0.995).contains(&share), "seeds 0 to {trials}: {share}");
    }

    #[test]
    fn a_sample_of_the_splits_agrees_with_all_of_them() {
        for seed in 0..4 {
            let pairs = noise(seed, 18, 0.025);
            let pick = |mut splits: Vec<Split>| (p_at(&splits, 0.0, 0.0), interval(&mut splits));
            let ((p, (low, high)), (sampled, (from, to))) = (pick(every(&pairs)), pick(some(&pairs, seed)));
            assert!((p - sampled).abs() < 0.003, "seed {seed}: {p} and {sampled}");
            assert!(
                (low - from).abs() < 0.003 && (high - to).abs() < 0.003,
                "seed {seed}: {low} {from} {high} {to}"
            );
        }
    }

    #[test]
    fn many_pairs_give_the_same_evidence_with_the_same_seed() {
        let pairs = noise(3, 60, 0.03);
        let it = weigh(&pairs, 5).unwrap();
        assert_eq!(Some(it), weigh(&pairs, 5));
        assert!(it.p <= ALPHA && it.p >= smallest_p(60) && it.low > 0.0 && it.high < 0.06, "{it:?}");
    }

    #[test]
    fn equal_pairs_show_no_difference_and_ties_count_as_equally_far() {
        let it = weigh(&[0.0; 10], 0).unwrap();
        assert_eq!((it.p, it.low, it.high, it.deviation), (1.0, 0.0, 0.0, 0.0));
        let half = [0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -0.1];
        assert_eq!(weigh(&half, 0).unwrap().p, 1.0);
        let one_way = weigh(&[0.1; 10], 0).unwrap();
        assert_eq!(one_way.p, smallest_p(10));
        assert!((one_way.low - 0.1).abs() < 1e-12 && (one_way.high - 0.1).abs() < 1e-12);
    }

    #[test]
    fn invalid_pairs_yield_no_evidence() {
        assert_eq!(weigh(&[0.1; 7], 0), None);
        assert_eq!(weigh(&[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, f64::NEG_INFINITY], 0), None);
    }
}
