//! Limits the memory of one call for statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Error;
use plimsoll_service::Reservation;

/// The memory of a summary: its entry in the tally and its text in the answer.
const SUMMARY_BYTES: usize = 1 << 10;
/// The memory of a value: a growing list may have twice the capacity.
const VALUE_BYTES: usize = 16;
/// Memory is reserved for this many values at a time.
const STEP: usize = 1 << 10;

/// The remaining memory of one call, shared by its sensors. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    /// The largest number of values that one sensor may hold for its percentiles.
    values_max: usize,
    summaries_max: usize,
    summaries: Arc<AtomicUsize>,
    hold: Reservation,
}

impl Allowance {
    pub(crate) fn new(values_max: usize, summaries_max: usize, hold: Reservation) -> Self {
        Self { values_max, summaries_max, summaries: Arc::default(), hold }
    }

    /// Reserves memory for the next value of a sensor that holds `held` values.
    ///
    /// # Errors
    /// [`Error::TooMuch`], [`Error::Memory`].
    pub(crate) fn value(&self, held: usize) -> Result<(), Error> {
        if held == self.values_max {
            return Err(Error::TooMuch { values_max: self.values_max });
        }
        if held.is_multiple_of(STEP) {
            self.hold.grow(STEP * VALUE_BYTES)?;
        }
        Ok(())
    }

    /// Reserves memory for one more summary.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Memory`].
    pub(crate) fn summary(&self) -> Result<(), Error> {
        // One task works on a call, so the order does not matter.
        if self.summaries.fetch_add(1, Ordering::Relaxed) >= self.summaries_max {
            return Err(Error::TooMany { summaries_max: self.summaries_max });
        }
        Ok(self.hold.grow(SUMMARY_BYTES)?)
    }

    /// Releases the values of a sensor.
    pub(crate) fn values_gone(&self, held: usize) {
        self.hold.shrink(held.div_ceil(STEP) * STEP * VALUE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_service::{Budget, BudgetError};

    #[test]
    fn values_and_summaries_use_the_budget_and_values_are_released() {
        let budget = Budget::new(100 << 10);
        let allowance = Allowance::new(3_000, 10, budget.reservation());
        (0..2_000).for_each(|held| allowance.value(held).unwrap());
        assert_eq!(budget.taken_bytes(), 32 << 10);
        let other = allowance.clone();
        (0..5).for_each(|_| other.summary().unwrap());
        (0..5).for_each(|_| allowance.summary().unwrap());
        assert!(
            matches!(other.summary(), Err(Error::TooMany { summaries_max: 10 })),
            "of all sensors together"
        );
        assert!(matches!(allowance.value(3_000), Err(Error::TooMuch { values_max: 3_000 })));
        allowance.values_gone(2_000);
        assert_eq!(budget.taken_bytes(), 10 << 10);
    }

    #[test]
    fn beyond_the_budget_the_error_shows_whether_a_retry_can_succeed() {
        let budget = Budget::new(64 << 10);
        let others = budget.reservation();
        others.grow(60 << 10).unwrap();
        let allowance = Allowance::new(1_000_000, 1_000, budget.reservation());
        assert!(matches!(allowance.value(0), Err(Error::Memory(BudgetError::Busy))));
        drop(others);
        (0..4 * STEP).for_each(|held| allowance.value(held).unwrap());
        assert!(matches!(
            allowance.value(4 * STEP),
            Err(Error::Memory(BudgetError::TooLarge { bytes_max: 65_536 }))
        ));
    }
}
