//! Assigns document numbers to writers by a pure function, so that writers never have to communicate.

use std::ops::Range;

use crate::receipt::NUMBERS_MAX;

/// The maximum number of workers of one allocation, over all shards.
pub const WORKERS_MAX: u64 = 1 << 16;

/// The numbers of a run in blocks, allocated in turn: block `b` belongs to worker `b mod workers`.
///
/// A worker knows its documents by a local index that counts its own numbers in order, so that each
/// worker's ledger is dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    block: u64,
    workers: u64,
    limit: Option<u64>,
}

/// The worker and the local index of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// The worker, over all shards.
    pub worker: u64,
    /// The count of that worker's numbers before this one.
    pub local: u64,
}

impl Allocation {
    /// An allocation of blocks of `block` numbers to `workers` (shards × workers a shard), up to `limit` numbers
    /// or, without a limit, as many as receipts can distinguish.
    ///
    /// # Errors
    /// A block or the number of workers is zero or too large, or the limit exceeds 2^40.
    pub fn new(block: u64, workers: u64, limit: Option<u64>) -> Result<Allocation, Error> {
        if block == 0 || block > NUMBERS_MAX {
            return Err(Error::Block(block));
        }
        if workers == 0 || workers > WORKERS_MAX {
            return Err(Error::Workers(workers));
        }
        match limit {
            Some(limit) if limit > NUMBERS_MAX => Err(Error::Limit(limit)),
            limit => Ok(Allocation { block, workers, limit }),
        }
    }

    /// Consecutive numbers that go to one worker.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Workers over all shards.
    pub fn workers(&self) -> u64 {
        self.workers
    }

    /// The limit of numbers, if there is one.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// The first number that is never allocated.
    pub fn end(&self) -> u64 {
        self.limit.unwrap_or(NUMBERS_MAX)
    }

    /// The count of numbers that this worker gets.
    pub fn allocated_to(&self, worker: u64) -> u64 {
        let (whole_blocks, rest) = (self.end() / self.block, self.end() % self.block);
        let (rounds, turn) = (whole_blocks / self.workers, whole_blocks % self.workers);
        match worker {
            w if w >= self.workers => 0,
            w if w < turn => (rounds + 1) * self.block,
            w if w == turn => rounds * self.block + rest,
            _ => rounds * self.block,
        }
    }

    /// The slot of a number; `None` if the number is outside the allocation.
    #[inline]
    pub fn locate(&self, number: u64) -> Option<Slot> {
        if number >= self.end() {
            return None;
        }
        let (block, offset) = (number / self.block, number % self.block);
        let local = block / self.workers * self.block + offset;
        Some(Slot { worker: block % self.workers, local })
    }

    /// The number of a slot; `None` if the worker gets fewer numbers than that.
    #[inline]
    pub fn global(&self, slot: Slot) -> Option<u64> {
        if slot.worker >= self.workers || slot.local >= NUMBERS_MAX {
            return None;
        }
        let (round, offset) = (slot.local / self.block, slot.local % self.block);
        let block = round.checked_mul(self.workers)?.checked_add(slot.worker)?;
        let number = block.checked_mul(self.block)?.checked_add(offset)?;
        (number < self.end()).then_some(number)
    }

    /// The share of one worker, from its first number on.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn share(&self, worker: u64) -> Share {
        assert!(worker < self.workers, "worker {worker} of {} workers", self.workers);
        Share { allocation: *self, worker, taken: 0 }
    }
}

/// The numbers of one worker, taken in order.
#[derive(Clone, Debug)]
pub struct Share {
    allocation: Allocation,
    worker: u64,
    taken: u64,
}

impl Share {
    /// Takes at most `count` consecutive numbers: fewer at a block's end and at the limit, `None` once the share is exhausted.
    /// Their local indexes are consecutive too, and begin at the previous value of [`Share::taken`].
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn take(&mut self, count: u64) -> Option<Range<u64>> {
        assert!(count > 0, "an operation takes at least one number");
        let allocation = &self.allocation;
        let start = allocation.global(Slot { worker: self.worker, local: self.taken })?;
        let block_rest = allocation.block - self.taken % allocation.block;
        let length = count.min(block_rest).min(allocation.end() - start);
        self.taken += length;
        Some(start..start + length)
    }

    /// The number of taken numbers, which is the local index of the next one.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The worker of this share.
    pub fn worker(&self) -> u64 {
        self.worker
    }
}

/// The allocation is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block has no numbers, or more than exist.
    #[error("a block of {0} numbers: choose from 1 to 2^40")]
    Block(u64),
    /// The number of workers is zero or too large.
    #[error("{0} workers over all shards: choose from 1 to 65536")]
    Workers(u64),
    /// The limit exceeds the numbers that receipts can distinguish.
    #[error("{0} documents: a run has at most 2^40; split it into several runs")]
    Limit(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(block: u64, workers: u64, limit: Option<u64>) -> Allocation {
        Allocation::new(block, workers, limit).unwrap()
    }

    fn take_all(allocation: &Allocation, worker: u64, count: u64) -> Vec<u64> {
        let mut share = allocation.share(worker);
        let mut numbers = Vec::new();
        while let Some(range) = share.take(count) {
            assert!(range.end - range.start <= count && !range.is_empty());
            assert_eq!(
                range.start / allocation.block(),
                (range.end - 1) / allocation.block(),
                "inside one block"
            );
            numbers.extend(range);
        }
        numbers
    }

    fn check_union(allocation: &Allocation, count: u64) {
        let mut all: Vec<u64> =
            (0..allocation.workers()).flat_map(|w| take_all(allocation, w, count)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..allocation.end()).collect::<Vec<_>>(), "{allocation:?}, {count} at a time");
    }

    #[test]
    fn each_number_is_allocated_to_one_worker_once() {
        for block in [1, 2, 3, 7, 10] {
            for workers in [1, 2, 3, 5] {
                for limit in [0, 1, 2, 9, 10, 29, 30, 31, 70, 101] {
                    [1, 2, 4, 100]
                        .into_iter()
                        .for_each(|count| check_union(&allocation(block, workers, Some(limit)), count));
                }
            }
        }
    }

    #[test]
    fn a_number_is_located_at_its_allocated_slot() {
        for (block, workers, limit) in [(1, 1, 50), (3, 4, 50), (10, 2, 55), (7, 3, 20)] {
            let allocation = allocation(block, workers, Some(limit));
            for worker in 0..workers {
                let numbers = take_all(&allocation, worker, 4);
                assert_eq!(numbers.len() as u64, allocation.allocated_to(worker));
                for (local, number) in (0..).zip(numbers) {
                    let slot = Slot { worker, local };
                    assert_eq!(allocation.locate(number), Some(slot));
                    assert_eq!(allocation.global(slot), Some(number));
                }
                assert_eq!(allocation.global(Slot { worker, local: allocation.allocated_to(worker) }), None);
            }
        }
    }

    #[test]
    fn numbers_outside_the_allocation_have_no_slot() {
        let allocation = allocation(10, 2, Some(25));
        assert_eq!(allocation.locate(25), None);
        assert_eq!(allocation.allocated_to(2), 0);
        assert_eq!(allocation.global(Slot { worker: 2, local: 0 }), None);
        assert_eq!(allocation.global(Slot { worker: 0, local: u64::MAX }), None);
    }

    #[test]
    fn an_unlimited_allocation_ends_at_the_largest_number_of_a_receipt() {
        let allocation = allocation(1000, 3, None);
        let total: u64 = (0..3).map(|worker| allocation.allocated_to(worker)).sum();
        assert_eq!(total, NUMBERS_MAX);
        let last = allocation.locate(NUMBERS_MAX - 1).unwrap();
        assert_eq!(allocation.global(last), Some(NUMBERS_MAX - 1));
        assert_eq!(allocation.locate(NUMBERS_MAX), None);
    }

    #[test]
    fn the_local_indexes_of_a_take_are_consecutive() {
        let allocation = allocation(10, 3, Some(100));
        let mut share = allocation.share(1);
        let mut next = 0;
        while let Some(range) = share.take(4) {
            for (local, number) in (next..).zip(range) {
                assert_eq!(allocation.locate(number), Some(Slot { worker: 1, local }));
            }
            next = share.taken();
        }
    }

    #[test]
    fn an_invalid_allocation_is_refused() {
        assert_eq!(Allocation::new(0, 1, None), Err(Error::Block(0)));
        assert_eq!(Allocation::new(1, 0, None), Err(Error::Workers(0)));
        assert_eq!(Allocation::new(1, WORKERS_MAX + 1, None), Err(Error::Workers(WORKERS_MAX + 1)));
        assert_eq!(Allocation::new(1, 1, Some(NUMBERS_MAX + 1)), Err(Error::Limit(NUMBERS_MAX + 1)));
    }
}
