//! Generates random numbers that follow from a seed.

/// Knuth's MMIX generator, whose upper bits are the most random.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator of the same seed, which follows from a name.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let mut random =
            name.bytes().fold(self.clone(), |random, byte| Self(random.0 ^ u64::from(byte)).turned());
        random.below(1);
        random
    }

    /// A number below a bound, which is at least one.
    pub fn below(&mut self, bound: u64) -> u64 {
        *self = self.clone().turned();
        (self.0 >> 33) % bound.max(1)
    }

    /// Shuffles (Fisher and Yates).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(last);
            things.swap(last, other);
        }
    }

    const fn turned(self) -> Self {
        Self(self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    }
}
