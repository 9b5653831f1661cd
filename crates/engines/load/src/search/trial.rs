//! Describes the result of a trial: how far each second exceeded each bound of the objective.

/// One second of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Nanoseconds from the run's start to its start.
    pub at_ns: u64,
    /// The excess over each bound.
    pub excess: Vec<f64>,
}

/// The judged seconds of one rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Operations per second.
    pub rate: f64,
    /// Its seconds.
    pub blocks: Vec<Block>,
    /// Whether the rate was reached without a failure, and yet every operation exceeded a bound. Such operations did not wait for
    /// each other, so a lower rate makes them hardly faster.
    pub is_slow_throughout: bool,
}

impl Trial {
    /// The number of bounds.
    pub(crate) fn bounds(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.excess.len())
    }

    /// The mean excess over a bound.
    pub fn mean(&self, bound: usize) -> f64 {
        let sum: f64 = self.blocks.iter().filter_map(|block| block.excess.get(bound)).sum();
        sum / (self.blocks.len() as f64).max(1.0)
    }

    /// The largest mean excess of all bounds.
    pub fn excess(&self) -> f64 {
        (0..self.bounds()).map(|bound| self.mean(bound)).fold(0.0, f64::max)
    }

    /// Whether the objective held. A trial in which nothing was due shows nothing.
    pub fn held(&self) -> bool {
        !self.blocks.is_empty() && self.excess() < 1.0
    }
}
