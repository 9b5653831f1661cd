//! What one call for statistics may still take of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Error;
use plimsoll_service::Reservation;

/// What a summary takes at most, from its place in the tally to its figures in the answer's text.
const SUMMARY_BYTES: usize = 1 << 10;
/// What a value takes at most: a list that grows has room for up to as many again.
const VALUE_BYTES: usize = 16;
/// Values are counted in steps of so many.
const STEP: usize = 1 << 10;

/// What the sensors of one call may still take together. A clone is the same allowance.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    /// Values that one sensor may hold for its percentiles.
    values_max: usize,
    summaries_max: usize,
    summaries: Arc<AtomicUsize>,
    hold: Reservation,
}

impl Allowance {
    pub(crate) fn new(values_max: usize, summaries_max: usize, hold: Reservation) -> Self {
        Self { values_max, summaries_max, summaries: Arc::default(), hold }
    }

    /// A sensor that holds so many values is about to hold one more.
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

    /// One summary more.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Memory`].
    pub(crate) fn summary(&self) -> Result<(), Error> {
        // One task works on a call, so nothing depends on the order.
        if self.summaries.fetch_add(1, Ordering::Relaxed) >= self.summaries_max {
            return Err(Error::TooMany { summaries_max: self.summaries_max });
        }
        Ok(self.hold.grow(SUMMARY_BYTES)?)
    }

    /// A sensor holds its values no more.
    pub(crate) fn values_gone(&self, held: usize) {
        self.hold.shrink(held.div_ceil(STEP) * STEP * VALUE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_service::{Budget, BudgetError};

    #[test]
    fn values_and_summaries_are_taken_from_the_budget_and_values_given_back() {
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
    fn beyond_the_budget_a_call_is_told_whether_it_is_worth_coming_back() {
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
