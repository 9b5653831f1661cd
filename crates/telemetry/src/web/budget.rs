//! Bodies in memory, counted before they are read.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in pieces of this size, so that a semaphore can hold them all.
const PIECE_BYTES: u32 = 1 << 10;

/// How many bytes of bodies may be in memory.
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

impl Budget {
    /// So many bytes.
    pub fn new(bytes_max: u32) -> Self {
        let pieces_max = bytes_max.div_ceil(PIECE_BYTES);
        Self { pieces: Arc::new(Semaphore::new(pieces_max as usize)), pieces_max }
    }

    /// Takes a part, unless too little is left.
    pub fn take(&self, bytes: u32) -> Option<Share> {
        let pieces = bytes.div_ceil(PIECE_BYTES);
        self.pieces.clone().try_acquire_many_owned(pieces).ok().map(Share)
    }

    /// Bytes that are taken.
    pub fn taken_bytes(&self) -> u64 {
        let free = u64::try_from(self.pieces.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pieces_max).saturating_sub(free) * u64::from(PIECE_BYTES)
    }
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
}
