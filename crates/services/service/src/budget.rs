//! Limits memory: request bodies reserve it before they are read, answers as they grow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the count: a semaphore cannot count that many single bytes.
const PAGE_BYTES: u64 = 1 << 10;

/// A limit on bytes in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    pages: Arc<Semaphore>,
    pages_max: u32,
}

/// A fixed part of a budget, released on drop.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "released on drop")] OwnedSemaphorePermit);

/// A growing part of a budget, for one answer. Dropping the last clone releases it.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// `None`: unlimited.
    budget: Option<Budget>,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    pages: Option<OwnedSemaphorePermit>,
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
        /// The whole budget.
        bytes_max: u64,
    },
}

impl Budget {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: u32) -> Self {
        let pages_max = narrow(pages(bytes_max.into()));
        Self { pages: Arc::new(Semaphore::new(pages_max as usize)), pages_max }
    }

    /// Takes `bytes`, unless too little is left.
    pub fn take(&self, bytes: u32) -> Option<Permit> {
        self.permit(pages(bytes.into())).map(Permit)
    }

    /// An empty reservation.
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: Some(self.clone()), held: Arc::default() }
    }

    /// Bytes in use, rounded up to whole units.
    pub fn taken_bytes(&self) -> u64 {
        let free = u64::try_from(self.pages.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pages_max).saturating_sub(free) * PAGE_BYTES
    }

    fn permit(&self, pages: u64) -> Option<OwnedSemaphorePermit> {
        self.pages.clone().try_acquire_many_owned(narrow(pages)).ok()
    }
}

impl Reservation {
    /// A reservation without a budget, for tests and tools.
    pub fn unlimited() -> Self {
        Self { budget: None, held: Arc::default() }
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`BudgetError`]; the reservation keeps its earlier size.
    pub fn grow(&self, bytes: usize) -> Result<(), BudgetError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let mut held = self.held();
        let total = held.bytes.saturating_add(bytes as u64);
        if pages(total) > u64::from(budget.pages_max) {
            return Err(BudgetError::TooLarge { bytes_max: u64::from(budget.pages_max) * PAGE_BYTES });
        }
        let more = pages(total) - pages(held.bytes);
        if more > 0 {
            let permit = budget.permit(more).ok_or(BudgetError::Busy)?;
            match &mut held.pages {
                Some(pages) => pages.merge(permit),
                none => *none = Some(permit),
            }
        }
        held.bytes = total;
        Ok(())
    }

    /// Releases `bytes`.
    pub fn shrink(&self, bytes: usize) {
        let mut held = self.held();
        let rest = held.bytes.saturating_sub(bytes as u64);
        held.keep(rest);
    }

    /// Releases everything above `bytes`.
    pub fn shrink_to(&self, bytes: usize) {
        let mut held = self.held();
        let rest = held.bytes.min(bytes as u64);
        held.keep(rest);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn keep(&mut self, bytes: u64) {
        self.bytes = bytes;
        let Some(held) = &mut self.pages else { return };
        let spare = held.num_permits().saturating_sub(narrow(pages(bytes)) as usize);
        drop(held.split(spare));
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_uses_the_budget_until_it_is_dropped() {
        let budget = Budget::new(10 << 10);
        let (one, other) = (budget.take(4 << 10), budget.take(5_000));
        assert!(one.is_some() && other.is_some());
        assert_eq!(budget.taken_bytes(), 9 << 10);
        assert!(budget.take(2 << 10).is_none());
        drop(one);
        assert!(budget.take(2 << 10).is_some() && budget.take(0).is_some());
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
