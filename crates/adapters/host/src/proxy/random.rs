//! Generates the seeded random numbers of a connection through the proxy.

use plimsoll_measure::random::{STEP, mix};

/// One sequence of numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Starts a sequence. A seed has one sequence for each number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Random(mix(seed).wrapping_add(mix(!number)))
    }

    /// A number below `bound`; zero for a bound of zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let wide = u128::from(mix(self.0)) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64, number: u64) -> Vec<u64> {
        let mut random = Random::new(seed, number);
        (0..8).map(|_| random.below(u64::MAX)).collect()
    }

    #[test]
    fn a_sequence_follows_from_seed_and_number_alone() {
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert!(numbers(1, 2) != numbers(1, 3) && numbers(1, 2) != numbers(2, 2) && numbers(0, 0)[0] != 0);
    }

    #[test]
    fn numbers_below_the_bound_are_evenly_distributed() {
        let mut random = Random::new(7, 7);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[usize::try_from(random.below(10)).unwrap()] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
