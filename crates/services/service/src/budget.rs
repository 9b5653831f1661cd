//! Limits memory: request bodies reserve it as they arrive, answers as they grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit in which memory is counted, in bytes. Small changes of a reservation seldom touch the shared
/// counter.
const PAGE_BYTES: u64 = 1 << 10;

/// A limit on bytes in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    taken: Arc<AtomicU64>,
    pages_max: u64,
}

/// A growing part of a budget, for one body or one answer. Dropping the last clone releases it.
#[derive(Clone, Debug)]
pub struct Reservation(Arc<Mutex<ReservedBytes>>);

#[derive(Debug)]
struct ReservedBytes {
    /// The budget that the bytes come from. `None` if they are unlimited.
    budget: Option<Budget>,
    bytes: u64,
}

/// The budget does not cover an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Other answers use the memory at present.
    #[error("too many answers are in memory: retry later")]
    Busy,
    /// The answer is larger than the whole budget.
    #[error("the answer takes more than {bytes_max} bytes: ask for a shorter window, or for less at once")]
    TooLarge {
        /// The size of the whole budget, in bytes.
        bytes_max: u64,
    },
}

impl Budget {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: u32) -> Self {
        Self { taken: Arc::default(), pages_max: pages(bytes_max.into()) }
    }

    /// An empty reservation.
    pub fn reservation(&self) -> Reservation {
        Reservation::of(Some(self.clone()))
    }

    /// Bytes in use, rounded up to whole units.
    pub fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Acquire) * PAGE_BYTES
    }

    /// Takes pages if no more than `pages_max` are in use afterwards.
    fn take(&self, pages: u64, pages_max: u64) -> Result<(), BudgetError> {
        let more = |taken: u64| Some(taken.saturating_add(pages)).filter(|taken| *taken <= pages_max);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map(drop).map_err(|_| BudgetError::Busy)
    }

    fn release(&self, pages: u64) {
        self.taken.fetch_sub(pages, Ordering::AcqRel);
    }
}

impl Reservation {
    /// A reservation without a budget, for tests and tools.
    pub fn unlimited() -> Self {
        Self::of(None)
    }

    fn of(budget: Option<Budget>) -> Self {
        Self(Arc::new(Mutex::new(ReservedBytes { budget, bytes: 0 })))
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`BudgetError`]; the reservation keeps its earlier size.
    pub fn grow(&self, bytes: usize) -> Result<(), BudgetError> {
        let mut reserved = self.lock();
        let (Some(budget), total) = (&reserved.budget, reserved.bytes.saturating_add(bytes as u64)) else {
            return Ok(());
        };
        if pages(total) > budget.pages_max {
            return Err(BudgetError::TooLarge { bytes_max: budget.pages_max * PAGE_BYTES });
        }
        budget.take(pages(total) - pages(reserved.bytes), budget.pages_max)?;
        reserved.bytes = total;
        Ok(())
    }

    /// Takes `bytes` more, although all reservations together then exceed the budget by up to `overdraft_bytes`.
    ///
    /// # Errors
    /// [`BudgetError::Busy`]; the reservation keeps its earlier size.
    pub(crate) fn overdraw(&self, bytes: usize, overdraft_bytes: u64) -> Result<(), BudgetError> {
        let mut reserved = self.lock();
        let (Some(budget), total) = (&reserved.budget, reserved.bytes.saturating_add(bytes as u64)) else {
            return Ok(());
        };
        let pages_max = budget.pages_max.saturating_add(pages(overdraft_bytes));
        budget.take(pages(total) - pages(reserved.bytes), pages_max)?;
        reserved.bytes = total;
        Ok(())
    }

    /// Releases `bytes`.
    pub fn shrink(&self, bytes: usize) {
        let mut reserved = self.lock();
        let rest = reserved.bytes.saturating_sub(bytes as u64);
        reserved.keep(rest);
    }

    /// Releases the reservation above `bytes`.
    pub fn shrink_to(&self, bytes: usize) {
        let mut reserved = self.lock();
        let rest = reserved.bytes.min(bytes as u64);
        reserved.keep(rest);
    }

    fn lock(&self) -> MutexGuard<'_, ReservedBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedBytes {
    fn keep(&mut self, bytes: u64) {
        let spare = pages(self.bytes) - pages(bytes);
        self.bytes = bytes;
        if let Some(budget) = self.budget.as_ref().filter(|_| spare > 0) {
            budget.release(spare);
        }
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.keep(0);
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overdraft_counts_and_is_limited() {
        let budget = Budget::new(10 << 10);
        let (one, other) = (budget.reservation(), budget.reservation());
        one.grow(10 << 10).unwrap();
        assert_eq!(other.overdraw(2_048, 2_048), Ok(()));
        assert_eq!(budget.taken_bytes(), 12 << 10);
        assert_eq!(other.overdraw(1, 2_048), Err(BudgetError::Busy));
        assert_eq!(budget.reservation().grow(1), Err(BudgetError::Busy), "the overdraft is paid back first");
        drop(one);
        assert_eq!(budget.taken_bytes(), 2 << 10);
        drop(other);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_reservation_counts_until_its_last_clone_is_dropped() {
        let budget = Budget::new(10 << 10);
        let reservation = budget.reservation();
        for taken in [1, 1, 2, 2] {
            reservation.grow(500).unwrap();
            assert_eq!(budget.taken_bytes(), taken << 10, "bytes are added up before they are rounded");
        }
        reservation.grow(8_000).unwrap();
        assert_eq!(budget.taken_bytes(), 10 << 10);
        reservation.shrink(4_000);
        assert_eq!(budget.taken_bytes(), 6 << 10);
        reservation.shrink_to(1_000_000);
        assert_eq!(budget.taken_bytes(), 6 << 10, "shrinking never enlarges a reservation");
        reservation.shrink_to(1);
        assert_eq!(budget.taken_bytes(), 1 << 10);
        let clone = reservation.clone();
        drop(reservation);
        assert_eq!(budget.taken_bytes(), 1 << 10);
        drop(clone);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_busy_budget_and_an_answer_larger_than_the_budget_are_different_errors() {
        let budget = Budget::new(10 << 10);
        let (one, other) = (budget.reservation(), budget.reservation());
        one.grow(6 << 10).unwrap();
        assert_eq!(other.grow(6 << 10), Err(BudgetError::Busy));
        assert_eq!(one.grow(6 << 10), Err(BudgetError::TooLarge { bytes_max: 10 << 10 }));
        assert_eq!(budget.taken_bytes(), 6 << 10, "a refused request takes nothing");
        drop(one);
        assert_eq!(other.grow(6 << 10), Ok(()));
        assert_eq!(Reservation::unlimited().grow(usize::MAX), Ok(()));
    }
}
