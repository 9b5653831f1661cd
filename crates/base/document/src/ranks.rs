//! Chooses among a growing number of items by popularity.

use crate::distribution::Zipf;
use crate::random::{Words, mix};

/// The largest exponent of a Zipf distribution.
pub const EXPONENT_MAX: f64 = crate::distribution::EXPONENT_MAX;

/// Combined with a rank (XOR) before the hash that scatters the ranks.
const SALT: u64 = 0x5CA3_B1ED;

/// Ranks with Zipf's distribution: rank k of 1..=n with a weight of k^−exponent. A draw costs the same for every n, and
/// n may differ from draw to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks(Zipf);

impl Ranks {
    /// Ranks with this exponent; `None` unless it is above 0 and up to [`EXPONENT_MAX`].
    #[must_use]
    pub fn new(exponent: f64) -> Option<Self> {
        (exponent > 0.0 && exponent <= EXPONENT_MAX).then(|| Self(Zipf::ranked(1, exponent)))
    }

    /// A rank from 0, the most popular, to `among` − 1. The same seed gives the same rank.
    ///
    /// # Panics
    /// When `among` is zero.
    #[must_use]
    pub fn rank(&self, among: u64, seed: u64) -> u64 {
        assert!(among > 0, "there is nothing to choose among");
        self.0.among(among).rank(&mut Words::of(seed))
    }

    /// An item from 0 to `among` − 1. Popular items are scattered. As `among` grows, a rank keeps its item or
    /// moves to a new item.
    ///
    /// # Panics
    /// When `among` is zero.
    #[must_use]
    pub fn scattered(&self, among: u64, seed: u64) -> u64 {
        jump(mix(self.rank(among, seed) ^ SALT), among)
    }
}

/// A pseudorandom bucket for a key. When a bucket is added, only one key of n moves, to the new bucket.
///
/// J. Lamping, E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014. It takes ln n steps.
fn jump(mut key: u64, buckets: u64) -> u64 {
    let (mut bucket, mut next) = (0, 0);
    while next < buckets {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((bucket + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as u64;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rank's count lies within five standard deviations of its expectation.
    fn check(exponent: f64, among: u64, seed: u64) {
        let (draws, ranks) = (200_000, Ranks::new(exponent).unwrap());
        let mut counts = vec![0_u64; among as usize];
        (0..draws).for_each(|draw| counts[ranks.rank(among, mix(seed ^ draw)) as usize] += 1);
        let weights: Vec<f64> = (1..=among).map(|k| (k as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        for (rank, (count, weight)) in counts.into_iter().zip(weights).enumerate() {
            let expected = draws as f64 * weight / total;
            let bound = 5.0 * expected.sqrt().max(1.0);
            let off = (count as f64 - expected).abs();
            assert!(off < bound, "seed {seed}, exponent {exponent}, rank {rank}: {count}, not {expected:.0}");
        }
    }

    #[test]
    fn ranks_follow_the_law_for_any_number_of_items() {
        for seed in [1, 99] {
            [(0.5, 10), (0.99, 100), (1.0, 300), (2.0, 50), (0.99, 1)]
                .into_iter()
                .for_each(|(exponent, among)| check(exponent, among, seed));
        }
    }

    #[test]
    fn an_exponent_out_of_bounds_has_no_ranks() {
        for exponent in [0.0, -1.0, 100.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Ranks::new(exponent), None);
        }
    }

    #[test]
    fn scattered_places_are_spread_evenly_when_no_rank_is_popular() {
        // An exponent near 0 makes all ranks equally popular, so only the scattering matters. A bucket holds
        // 100 ranks on average; the fullest bucket holds no more than chance explains.
        let (ranks, among, draws) = (Ranks::new(1e-9).unwrap(), 10_000, 400_000_u64);
        let mut counts = [0_u64; 100];
        (0..draws).for_each(|draw| counts[(ranks.scattered(among, mix(draw)) / 100) as usize] += 1);
        // 100 ± 10 ranks fall into a bucket, and each is drawn 40 times.
        assert!(counts.iter().all(|count| count.abs_diff(4000) < 2400), "{counts:?}");
    }

    #[test]
    fn the_popular_places_stay_popular_as_their_number_grows() {
        let ranks = Ranks::new(0.99).unwrap();
        let favourite = |among: u64| {
            let mut counts = vec![0_u32; among as usize];
            (0..20_000).for_each(|draw| counts[ranks.scattered(among, mix(draw)) as usize] += 1);
            (0..among).max_by_key(|place| counts[*place as usize]).unwrap()
        };
        let places: Vec<_> = [1000, 1001, 1010, 1100].map(favourite).to_vec();
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
        let moved = (0..10_000).filter(|key| jump(mix(*key), 1000) != jump(mix(*key), 1001)).count();
        assert!(moved < 30, "{moved} of 10,000 keys moved for one new bucket");
    }
}
