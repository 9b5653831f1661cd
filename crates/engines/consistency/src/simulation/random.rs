//! Draws the decisions of a simulation from its seed.

use plimsoll_measure::random;

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    /// The decisions of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.bits() % bound
    }

    /// True in `percent` of 100 cases.
    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
