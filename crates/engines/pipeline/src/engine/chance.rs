//! Numbers that spread what would happen at one moment.

/// A sequence of numbers that follows from a seed (xorshift; Marsaglia, "Xorshift RNGs", 2003).
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// The sequence of a seed.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1 << 63)
    }

    /// The next number, from 0 to 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_lie_from_0_to_1_and_differ() {
        let mut chance = Chance::new(0);
        let numbers: Vec<_> = (0..1000).map(|_| chance.next()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
