//! Counts readings and commits.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of buckets of a histogram. Their upper bounds are 1, 2, 4, …; the last bucket has none.
pub const STEPS: usize = 24;

/// Counters. All only grow, except the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted readings, answered or not.
    pub accepted: u64,
    /// Readings stored for the first time.
    pub new: u64,
    /// Readings that already existed.
    pub known: u64,
    /// Readings of failed commits.
    pub failed: u64,
    /// Readings refused because the queue was full.
    pub busy: u64,
    /// Commits, including failed ones.
    pub commits: u64,
    /// Readings in each commit.
    pub commit_readings: Histogram,
    /// The time of the store for each commit, in microseconds.
    pub store_us: Histogram,
    /// Readings waiting or in flight.
    pub queued: u64,
}

/// A histogram with powers of two as bounds. The last bucket has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The count of each bucket; bucket `n` holds values up to `2ⁿ`.
    pub steps: [u64; STEPS],
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// The bound of a bucket; `None` for the last.
    pub fn bound(step: usize) -> Option<u64> {
        (step + 1 < STEPS).then(|| 1 << step)
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }
}

/// The live counters.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) accepted: AtomicU64,
    pub(crate) new: AtomicU64,
    pub(crate) known: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) commit_readings: Steps,
    pub(crate) store_us: Steps,
}

#[derive(Debug, Default)]
pub(crate) struct Steps {
    steps: [AtomicU64; STEPS],
    sum: AtomicU64,
}

impl Counting {
    pub(crate) fn snapshot(&self, queued: usize) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let commit_readings = self.commit_readings.snapshot();
        Counters {
            accepted: get(&self.accepted),
            new: get(&self.new),
            known: get(&self.known),
            failed: get(&self.failed),
            busy: get(&self.busy),
            commits: commit_readings.count(),
            commit_readings,
            store_us: self.store_us.snapshot(),
            queued: queued as u64,
        }
    }
}

/// Adds to a counter. Relaxed, because readers need no order between counters.
pub(crate) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Steps {
    pub(crate) fn record(&self, value: u64) {
        let step = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
        add(&self.steps[step.min(STEPS - 1)], 1);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Histogram {
        let steps = std::array::from_fn(|step| self.steps[step].load(Ordering::Relaxed));
        Histogram { steps, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_holds_it() {
        let steps = Steps::default();
        let values = [0, 1, 2, 3, 4, 5, 1 << 22, (1 << 22) + 1, u64::MAX >> 1];
        values.iter().for_each(|value| steps.record(*value));
        let found = steps.snapshot();
        assert_eq!(found.steps[..4], [2, 1, 2, 1]);
        assert_eq!((found.steps[22], found.steps[23]), (1, 2));
        assert_eq!(found.count(), values.len() as u64);
        assert_eq!(found.sum, values.iter().sum::<u64>());
        assert_eq!((Histogram::bound(2), Histogram::bound(STEPS - 1)), (Some(4), None));
    }
}
