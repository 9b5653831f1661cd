//! Draws ranks with Zipf's distribution: rank k of 1..=n with a weight of k^−exponent, for any exponent above 0.
//!
//! W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM
//! TOMACS 6 (1996), section 3. A rank takes 1.1 tries or fewer on average; the cost is independent of n, and there are no tables.

use crate::arithmetic::{exp, exp_m1_over, ln, ln_1p_over};
use crate::random::{Words, mix, unit};

use super::Order;

/// The limit of tries, so that unlucky words cannot delay a document; the chance of reaching it is below 10^-30.
const TRIES_MAX: u32 = 64;

/// A sampler of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Zipf {
    ranks: f64,
    exponent: f64,
    order: Order,
    area_low: f64,
    area_high: f64,
    squeeze: f64,
}

impl Zipf {
    /// A sampler whose least rank is the most frequent.
    pub(crate) fn ranked(ranks: u64, exponent: f64) -> Self {
        Self::new(ranks, exponent, Order::Ranked)
    }

    /// The same sampler for another number of ranks.
    pub(crate) fn among(self, ranks: u64) -> Self {
        let ranks = ranks as f64;
        Self { ranks, area_high: area(ranks + 0.5, self.exponent), ..self }
    }

    /// A sampler of `ranks` (at least 1) ranks.
    pub(crate) fn new(ranks: u64, exponent: f64, order: Order) -> Self {
        let ranks = ranks as f64;
        let squeeze = 2.0 - area_inverse(area(2.5, exponent) - weight(2.0, exponent), exponent);
        Self {
            ranks,
            exponent,
            order,
            area_low: area(1.5, exponent) - 1.0,
            area_high: area(ranks + 0.5, exponent),
            squeeze,
        }
    }

    /// A rank from 0 to n − 1.
    pub(crate) fn rank(&self, words: &mut Words) -> u64 {
        let rank = self.unscrambled(words);
        match self.order {
            Order::Ranked => rank,
            Order::Scrambled => crate::random::below(mix(rank ^ 0x5CA3_B1ED), self.ranks as u64),
        }
    }

    fn unscrambled(&self, words: &mut Words) -> u64 {
        for _ in 0..TRIES_MAX {
            let under = self.area_high + unit(words.next()) * (self.area_low - self.area_high);
            let x = area_inverse(under, self.exponent);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.squeeze
                || under >= area(rank + 0.5, self.exponent) - weight(rank, self.exponent)
            {
                return rank as u64 - 1;
            }
        }
        0
    }
}

/// x^−exponent.
fn weight(x: f64, exponent: f64) -> f64 {
    exp(-exponent * ln(x))
}

/// The integral of the weight, up to a constant: (x^(1 − exponent) − 1) ÷ (1 − exponent), ln x when the exponent is 1.
fn area(x: f64, exponent: f64) -> f64 {
    let log = ln(x);
    exp_m1_over((1.0 - exponent) * log) * log
}

/// The inverse of [`area`].
fn area_inverse(under: f64, exponent: f64) -> f64 {
    let t = (under * (1.0 - exponent)).max(-1.0 + f64::EPSILON);
    exp(ln_1p_over(t) * under)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(exponent: f64, ranks: u64, draws: u64) -> Vec<u64> {
        let zipf = Zipf::new(ranks, exponent, Order::Ranked);
        let mut counts = vec![0; ranks as usize];
        for number in 0..draws {
            let identity = crate::Identity::default();
            let draw =
                crate::random::Draw { place: crate::random::base(7, number), number, identity: &identity };
            counts[zipf.rank(&mut draw.words()) as usize] += 1;
        }
        counts
    }

    /// Every rank's count lies within five standard deviations of its expectation; the draws are a function of seed 7.
    fn check(exponent: f64, ranks: u64) {
        let draws = 200_000;
        let weights: Vec<f64> = (1..=ranks).map(|k| (k as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        for (rank, (count, weight)) in counts(exponent, ranks, draws).into_iter().zip(weights).enumerate() {
            let expected = draws as f64 * weight / total;
            let deviation = expected.sqrt().max(1.0);
            assert!(
                (count as f64 - expected).abs() < 5.0 * deviation,
                "exponent {exponent}, rank {rank}: {count}, not {expected:.0}"
            );
        }
    }

    #[test]
    fn frequencies_follow_the_law() {
        for exponent in [0.2, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0] {
            check(exponent, 100);
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        check(0.99, 1);
    }

    #[test]
    fn scrambled_ranks_stay_in_range_and_one_is_the_most_frequent() {
        let zipf = Zipf::new(1000, 0.99, Order::Scrambled);
        let mut counts = vec![0; 1000];
        for number in 0..50_000 {
            let identity = crate::Identity::default();
            let draw =
                crate::random::Draw { place: crate::random::base(7, number), number, identity: &identity };
            counts[zipf.rank(&mut draw.words()) as usize] += 1;
        }
        let (place, count) = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
        assert!(*count > 5000 && place != 0, "{count} at {place}");
    }

    #[test]
    fn the_largest_ranges_work() {
        for exponent in [0.01, 1.0, 100.0] {
            let zipf = Zipf::new(1 << 48, exponent, Order::Ranked);
            let identity = crate::Identity::default();
            for place in 0..1000 {
                let draw = crate::random::Draw { place, number: 0, identity: &identity };
                assert!(zipf.rank(&mut draw.words()) < 1 << 48);
            }
        }
    }
}
