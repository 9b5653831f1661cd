//! Spreads simultaneous retries over time.

/// A pseudorandom sequence from a seed (xorshift; Marsaglia, "Xorshift RNGs", 2003).
#[derive(Clone, Copy, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    /// The sequence of a seed.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1 << 63)
    }

    /// The next number, from 0 up to 1.
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
    fn numbers_are_spread_from_0_to_1() {
        let mut jitter = Jitter::new(0);
        let numbers: Vec<_> = (0..1000).map(|_| jitter.next()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
