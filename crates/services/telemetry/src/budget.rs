//! Memory that is counted before it is used: bodies before they are read, answers as they grow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in pieces of this size, so that a semaphore can hold them all.
const PIECE_BYTES: u64 = 1 << 10;

/// How many bytes may be in memory. Clones share everything.
#[derive(Clone, Debug)]
pub struct Budget {
    pieces: Arc<Semaphore>,
    pieces_max: u32,
}

/// A part of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share(
    #[expect(dead_code, reason = "it is held, and given back when dropped")] OwnedSemaphorePermit,
);

/// What one answer takes of a budget. It grows with the answer, and is given back with its last clone.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Nothing is counted without one.
    budget: Option<Budget>,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    pieces: Option<OwnedSemaphorePermit>,
}

/// An answer finds no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Others take it.
    #[error("too many answers are in memory: come back later")]
    Now,
    /// There is not as much at all.
    #[error("the answer takes more than {bytes_max} bytes: ask for a shorter window, or for less at once")]
    Ever {
        /// All there is.
        bytes_max: u64,
    },
}

impl Budget {
    /// So many bytes.
    pub fn new(bytes_max: u32) -> Self {
        let pieces_max = narrow(pieces(bytes_max.into()));
        Self { pieces: Arc::new(Semaphore::new(pieces_max as usize)), pieces_max }
    }

    /// Takes a part, unless too little is left.
    pub fn take(&self, bytes: u32) -> Option<Share> {
        self.permit(pieces(bytes.into())).map(Share)
    }

    /// A part that grows; nothing is taken yet.
    pub fn hold(&self) -> Hold {
        Hold { budget: Some(self.clone()), held: Arc::default() }
    }

    /// Bytes that are taken.
    pub fn taken_bytes(&self) -> u64 {
        let free = u64::try_from(self.pieces.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pieces_max).saturating_sub(free) * PIECE_BYTES
    }

    fn permit(&self, pieces: u64) -> Option<OwnedSemaphorePermit> {
        self.pieces.clone().try_acquire_many_owned(narrow(pieces)).ok()
    }
}

impl Hold {
    /// For whoever has memory of its own to spend: a test, a tool.
    pub fn unlimited() -> Self {
        Self { budget: None, held: Arc::default() }
    }

    /// Takes so many bytes more.
    ///
    /// # Errors
    /// [`NoRoom`]; what was taken before stays taken.
    pub fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let mut held = self.held();
        let wanted = held.bytes.saturating_add(bytes as u64);
        if pieces(wanted) > u64::from(budget.pieces_max) {
            return Err(NoRoom::Ever { bytes_max: u64::from(budget.pieces_max) * PIECE_BYTES });
        }
        let more = pieces(wanted) - pieces(held.bytes);
        if more > 0 {
            let permit = budget.permit(more).ok_or(NoRoom::Now)?;
            match &mut held.pieces {
                Some(pieces) => pieces.merge(permit),
                none => *none = Some(permit),
            }
        }
        held.bytes = wanted;
        Ok(())
    }

    /// Gives so many bytes back.
    pub fn shrink(&self, bytes: usize) {
        let mut held = self.held();
        let rest = held.bytes.saturating_sub(bytes as u64);
        held.keep(rest);
    }

    /// Gives back what is more than so many bytes.
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
        let Some(held) = &mut self.pieces else { return };
        let spare = held.num_permits().saturating_sub(narrow(pieces(bytes)) as usize);
        drop(held.split(spare));
    }
}

fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE_BYTES)
}

fn narrow(pieces: u64) -> u32 {
    u32::try_from(pieces).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_is_given_back() {
        let budget = Budget::new(10 << 10);
        let (one, other) = (budget.take(4 << 10), budget.take(5_000));
        assert!(one.is_some() && other.is_some());
        assert_eq!(budget.taken_bytes(), 9 << 10);
        assert!(budget.take(2 << 10).is_none());
        drop(one);
        assert!(budget.take(2 << 10).is_some() && budget.take(0).is_some());
    }

    #[test]
    fn what_grows_is_counted_until_its_last_clone_is_gone() {
        let budget = Budget::new(10 << 10);
        let hold = budget.hold();
        for taken in [1, 1, 2, 2] {
            hold.grow(500).unwrap();
            assert_eq!(budget.taken_bytes(), taken << 10, "bytes are added up before they are pieces");
        }
        hold.grow(8_000).unwrap();
        assert_eq!(budget.taken_bytes(), 10 << 10);
        hold.shrink(4_000);
        assert_eq!(budget.taken_bytes(), 6 << 10);
        hold.shrink_to(1_000_000);
        assert_eq!(budget.taken_bytes(), 6 << 10, "it does not grow by shrinking");
        hold.shrink_to(1);
        assert_eq!(budget.taken_bytes(), 1 << 10);
        let clone = hold.clone();
        drop(hold);
        assert_eq!(budget.taken_bytes(), 1 << 10);
        drop(clone);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn what_others_take_is_told_from_what_will_never_be_there() {
        let budget = Budget::new(10 << 10);
        let (one, other) = (budget.hold(), budget.hold());
        one.grow(6 << 10).unwrap();
        assert_eq!(other.grow(6 << 10), Err(NoRoom::Now));
        assert_eq!(one.grow(6 << 10), Err(NoRoom::Ever { bytes_max: 10 << 10 }));
        assert_eq!(budget.taken_bytes(), 6 << 10, "what is refused takes nothing");
        drop(one);
        assert_eq!(other.grow(6 << 10), Ok(()));
        assert_eq!(Hold::unlimited().grow(usize::MAX), Ok(()));
    }
}
