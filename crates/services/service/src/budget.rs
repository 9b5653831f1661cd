//! Limits memory: request bodies reserve it as they arrive, answers as they grow.
//!
//! A connection may hold at most a third of the memory of answers that stays free beside it. So one connection holds a quarter of the
//! budget at most, and it takes dozens to leave no room for others: n connections leave (3/4)ⁿ of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit in which memory is counted, in bytes. Small changes of a reservation seldom touch the shared
/// counter.
const PAGE_BYTES: u64 = 1 << 10;
/// The free pages that each page of a connection needs beside it.
const FREE_FACTOR: u64 = 3;

tokio::task_local! {
    static SHARE: Share;
}

/// A limit on bytes in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    taken: Arc<AtomicU64>,
    pages_max: u64,
    /// Whether each connection has a limit, too.
    is_divided: bool,
}

/// The pages that one connection holds. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share(Arc<AtomicU64>);

impl Share {
    /// Runs `make` for this connection: reservations that it makes count here.
    pub(crate) fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        SHARE.sync_scope(self.clone(), make)
    }

    /// Runs a whole future for this connection.
    pub(crate) async fn during<T>(&self, future: impl Future<Output = T>) -> T {
        SHARE.scope(self.clone(), future).await
    }

    /// The connection that this task serves.
    fn current() -> Option<Self> {
        SHARE.try_with(Self::clone).ok()
    }

    fn pages(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes pages; returns all that the connection then holds.
    fn take(&self, pages: u64) -> u64 {
        self.0.fetch_add(pages, Ordering::AcqRel) + pages
    }

    fn release(&self, pages: u64) {
        self.0.fetch_sub(pages, Ordering::AcqRel);
    }
}

/// A growing part of a budget, for one body or one answer. Dropping the last clone releases it.
#[derive(Clone, Debug)]
pub struct Reservation(Arc<Mutex<ReservedBytes>>);

#[derive(Debug)]
struct ReservedBytes {
    /// The budget that the bytes come from. `None` if they are unlimited.
    budget: Option<Budget>,
    /// The connection that holds them. `None` if it has no limit.
    share: Option<Share>,
    bytes: u64,
}

/// The budget does not cover an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Other answers use the memory at present.
    #[error("too many answers are in memory: retry later")]
    Busy,
    /// The answer is larger than the whole budget, or than the part of one connection.
    #[error("the answer takes more than {bytes_max} bytes: ask for a shorter window, or for less at once")]
    TooLarge {
        /// The largest possible size, in bytes.
        bytes_max: u64,
    },
}

impl Budget {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: u32) -> Self {
        Self { taken: Arc::default(), pages_max: pages(bytes_max.into()), is_divided: false }
    }

    /// A budget of `bytes_max` that limits each connection, too.
    pub(crate) fn divided(bytes_max: u32) -> Self {
        Self { is_divided: true, ..Self::new(bytes_max) }
    }

    /// An empty reservation, for the connection that this task serves.
    pub fn reservation(&self) -> Reservation {
        let share = self.is_divided.then(Share::current).flatten();
        Reservation::of(Some(self.clone()), share)
    }

    /// Whether the connection that this task serves holds half of its largest part or more, and may take no more.
    pub(crate) fn is_exhausted(&self) -> bool {
        let taken = self.taken.load(Ordering::Acquire);
        Share::current().is_some_and(|share| {
            let held = share.pages();
            held > self.part_max() / 2 && held * FREE_FACTOR >= self.pages_max.saturating_sub(taken)
        })
    }

    /// The most pages of one connection: with as many in use, three times as many are free.
    const fn part_max(&self) -> u64 {
        self.pages_max / (1 + FREE_FACTOR)
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
        Self::of(None, None)
    }

    fn of(budget: Option<Budget>, share: Option<Share>) -> Self {
        Self(Arc::new(Mutex::new(ReservedBytes { budget, share, bytes: 0 })))
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`BudgetError`]; the reservation keeps its earlier size.
    pub fn grow(&self, bytes: usize) -> Result<(), BudgetError> {
        let mut reserved = self.lock();
        let Some(budget) = &reserved.budget else { return Ok(()) };
        let most = if reserved.share.is_some() { budget.part_max() } else { budget.pages_max };
        if pages(reserved.bytes.saturating_add(bytes as u64)) > most {
            return Err(BudgetError::TooLarge { bytes_max: most * PAGE_BYTES });
        }
        let pages_max = budget.pages_max;
        reserved.take(bytes, |held| pages_max.saturating_sub(held * FREE_FACTOR))
    }

    /// Takes `bytes` more, although all reservations together then exceed the budget by up to `overdraft_bytes`.
    ///
    /// # Errors
    /// [`BudgetError::Busy`]; the reservation keeps its earlier size.
    pub(crate) fn overdraw(&self, bytes: usize, overdraft_bytes: u64) -> Result<(), BudgetError> {
        let mut reserved = self.lock();
        let Some(budget) = &reserved.budget else { return Ok(()) };
        let pages_max = budget.pages_max.saturating_add(pages(overdraft_bytes));
        reserved.take(bytes, |_| pages_max)
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
    /// Takes `bytes` more if the pages in use are then at most `pages_max` of the pages that the connection then holds.
    fn take(&mut self, bytes: usize, pages_max: impl FnOnce(u64) -> u64) -> Result<(), BudgetError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let total = self.bytes.saturating_add(bytes as u64);
        let more = pages(total) - pages(self.bytes);
        let held = self.share.as_ref().map_or(0, |share| share.take(more));
        if let Err(error) = budget.take(more, pages_max(held)) {
            self.share.iter().for_each(|share| share.release(more));
            return Err(error);
        }
        self.bytes = total;
        Ok(())
    }

    fn keep(&mut self, bytes: u64) {
        let spare = pages(self.bytes) - pages(bytes);
        self.bytes = bytes;
        if let Some(budget) = self.budget.as_ref().filter(|_| spare > 0) {
            budget.release(spare);
            self.share.iter().for_each(|share| share.release(spare));
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
    fn a_connection_takes_a_quarter_and_dozens_of_connections_leave_room() {
        let budget = Budget::divided(256 << 10);
        let (mut held, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..12 {
            let share = Share::default();
            let reserve = || share.within(|| budget.reservation());
            while {
                let one = reserve();
                one.grow(1 << 10).map(|()| held.push(one)).is_ok()
            } {}
            parts.push(share.pages());
        }
        assert_eq!(parts[..4], [64, 48, 36, 27], "each a quarter of the rest");
        let other = Share::default().within(|| budget.reservation());
        assert_eq!(other.grow(2_000), Ok(()));
        drop((held, other));
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn an_answer_beyond_the_part_of_a_connection_is_too_large() {
        let budget = Budget::divided(64 << 10);
        let share = Share::default();
        let one = share.within(|| budget.reservation());
        assert_eq!(one.grow(17 << 10), Err(BudgetError::TooLarge { bytes_max: 16 << 10 }));
        one.grow(16 << 10).unwrap();
        assert!(!budget.is_exhausted(), "no connection");
        assert!(share.within(|| budget.is_exhausted()));
        assert_eq!(share.within(|| budget.reservation()).grow(1), Err(BudgetError::Busy));
        assert_eq!(share.within(|| budget.reservation()).overdraw(1, 0), Ok(()));
        one.shrink_to(1);
        assert!(share.pages() == 1 && !share.within(|| budget.is_exhausted()));
        budget.reservation().grow(60 << 10).unwrap();
        drop(one);
        assert_eq!((share.pages(), budget.taken_bytes()), (0, 0));
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
