//! Generates reproducible random bits: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014, section 5, with variant 13 of Stafford's finalizers).

/// The increment of the sequence: the odd number nearest to 2^64 ÷ the golden ratio.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer: spreads every bit of `word` over the result. It is a bijection.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The hash of no bytes by [`fnv1a`].
pub const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;

/// Adds bytes to a hash: FNV-1a of 64 bits (Fowler, Noll and Vo; RFC 9923).
#[inline]
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// A stream of random bits that its seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normal value of mean 0 and standard deviation 1 (Box and Muller, 1958).
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(FNV_BASIS, b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv1a(fnv1a(FNV_BASIS, b"foo"), b"bar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn normal_values_have_their_mean_and_their_spread() {
        let (seed, count) = (7, 100_000);
        let mut random = Random::new(seed);
        let values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(count);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "seed {seed}: {mean} {variance}");
    }
}
