//! Assigns document numbers to writers by a pure function, so that writers never have to communicate.

use std::ops::Range;

use crate::receipt::NUMBERS_MAX;

/// The maximum number of workers of one deal, over all shards.
pub const WORKERS_MAX: u64 = 1 << 16;

/// The numbers of a run in blocks, dealt round and round: block `b` belongs to worker `b mod workers`.
///
/// A worker knows its documents by a local index that counts its own numbers in order, so that each
/// worker's ledger is dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    block: u64,
    workers: u64,
    limit: Option<u64>,
}

/// The worker and the local index of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The worker, over all shards.
    pub worker: u64,
    /// The number of that worker's numbers before this one.
    pub local: u64,
}

impl Deal {
    /// A deal of blocks of `block` numbers to `workers` (shards × workers a shard), up to `limit` numbers
    /// or, without a limit, as many as receipts can tell apart.
    ///
    /// # Errors
    /// When a block or the workers are none or too many, or the limit is beyond 2^40.
    pub fn new(block: u64, workers: u64, limit: Option<u64>) -> Result<Deal, Error> {
        if block == 0 || block > NUMBERS_MAX {
            return Err(Error::Block(block));
        }
        if workers == 0 || workers > WORKERS_MAX {
            return Err(Error::Workers(workers));
        }
        match limit {
            Some(limit) if limit > NUMBERS_MAX => Err(Error::Limit(limit)),
            limit => Ok(Deal { block, workers, limit }),
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

    /// The first number that is never dealt.
    pub fn end(&self) -> u64 {
        self.limit.unwrap_or(NUMBERS_MAX)
    }

    /// The number of numbers of this worker.
    pub fn dealt_to(&self, worker: u64) -> u64 {
        let (whole_blocks, rest) = (self.end() / self.block, self.end() % self.block);
        let (rounds, turn) = (whole_blocks / self.workers, whole_blocks % self.workers);
        match worker {
            w if w >= self.workers => 0,
            w if w < turn => (rounds + 1) * self.block,
            w if w == turn => rounds * self.block + rest,
            _ => rounds * self.block,
        }
    }

    /// The worker and local index of a number; nothing when the number is outside the deal.
    #[inline]
    pub fn locate(&self, number: u64) -> Option<Place> {
        if number >= self.end() {
            return None;
        }
        let (block, offset) = (number / self.block, number % self.block);
        let local = block / self.workers * self.block + offset;
        Some(Place { worker: block % self.workers, local })
    }

    /// The number at a place; nothing when the worker is dealt fewer numbers than that.
    #[inline]
    pub fn global(&self, place: Place) -> Option<u64> {
        if place.worker >= self.workers || place.local >= NUMBERS_MAX {
            return None;
        }
        let (round, offset) = (place.local / self.block, place.local % self.block);
        let block = round.checked_mul(self.workers)?.checked_add(place.worker)?;
        let number = block.checked_mul(self.block)?.checked_add(offset)?;
        (number < self.end()).then_some(number)
    }

    /// The share of one worker, from its first number on.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn share(&self, worker: u64) -> Share {
        assert!(worker < self.workers, "worker {worker} of {} workers", self.workers);
        Share { deal: *self, worker, taken: 0 }
    }
}

/// The numbers of one worker, taken in order.
#[derive(Clone, Debug)]
pub struct Share {
    deal: Deal,
    worker: u64,
    taken: u64,
}

impl Share {
    /// Takes at most `count` consecutive numbers. Fewer come at a block's end and at the limit, none once
    /// the share is exhausted. Their local indexes are as consecutive, and begin at [`Share::taken`] as it
    /// was before.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn take(&mut self, count: u64) -> Option<Range<u64>> {
        assert!(count > 0, "an operation takes at least one number");
        let deal = &self.deal;
        let start = deal.global(Place { worker: self.worker, local: self.taken })?;
        let block_rest = deal.block - self.taken % deal.block;
        let length = count.min(block_rest).min(deal.end() - start);
        self.taken += length;
        Some(start..start + length)
    }

    /// The number of taken numbers, which is the local index of the next one.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The worker whose share this is.
    pub fn worker(&self) -> u64 {
        self.worker
    }
}

/// The deal is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No numbers a block, or more than there are.
    #[error("a block of {0} numbers: choose from 1 to 2^40")]
    Block(u64),
    /// No worker, or too many.
    #[error("{0} workers over all shards: choose from 1 to 65536")]
    Workers(u64),
    /// More numbers than receipts can tell apart.
    #[error("{0} documents: a run counts at most 2^40, split it into several runs")]
    Limit(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deal(block: u64, workers: u64, limit: Option<u64>) -> Deal {
        Deal::new(block, workers, limit).unwrap()
    }

    fn take_all(deal: &Deal, worker: u64, count: u64) -> Vec<u64> {
        let mut share = deal.share(worker);
        let mut numbers = Vec::new();
        while let Some(range) = share.take(count) {
            assert!(range.end - range.start <= count && !range.is_empty());
            assert_eq!(range.start / deal.block(), (range.end - 1) / deal.block(), "inside one block");
            numbers.extend(range);
        }
        numbers
    }

    fn check_union(deal: &Deal, count: u64) {
        let mut all: Vec<u64> = (0..deal.workers()).flat_map(|w| take_all(deal, w, count)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..deal.end()).collect::<Vec<_>>(), "{deal:?}, {count} at a time");
    }

    #[test]
    fn all_workers_together_are_dealt_each_number_once() {
        for block in [1, 2, 3, 7, 10] {
            for workers in [1, 2, 3, 5] {
                for limit in [0, 1, 2, 9, 10, 29, 30, 31, 70, 101] {
                    [1, 2, 4, 100]
                        .into_iter()
                        .for_each(|count| check_union(&deal(block, workers, Some(limit)), count));
                }
            }
        }
    }

    #[test]
    fn a_number_is_found_where_it_was_dealt() {
        for (block, workers, limit) in [(1, 1, 50), (3, 4, 50), (10, 2, 55), (7, 3, 20)] {
            let deal = deal(block, workers, Some(limit));
            for worker in 0..workers {
                let numbers = take_all(&deal, worker, 4);
                assert_eq!(numbers.len() as u64, deal.dealt_to(worker));
                for (local, number) in (0..).zip(numbers) {
                    let place = Place { worker, local };
                    assert_eq!(deal.locate(number), Some(place));
                    assert_eq!(deal.global(place), Some(number));
                }
                assert_eq!(deal.global(Place { worker, local: deal.dealt_to(worker) }), None);
            }
        }
    }

    #[test]
    fn nothing_lies_outside_the_deal() {
        let deal = deal(10, 2, Some(25));
        assert_eq!(deal.locate(25), None);
        assert_eq!(deal.dealt_to(2), 0);
        assert_eq!(deal.global(Place { worker: 2, local: 0 }), None);
        assert_eq!(deal.global(Place { worker: 0, local: u64::MAX }), None);
    }

    #[test]
    fn a_deal_without_limit_ends_where_receipts_do() {
        let deal = deal(1000, 3, None);
        let total: u64 = (0..3).map(|worker| deal.dealt_to(worker)).sum();
        assert_eq!(total, NUMBERS_MAX);
        let last = deal.locate(NUMBERS_MAX - 1).unwrap();
        assert_eq!(deal.global(last), Some(NUMBERS_MAX - 1));
        assert_eq!(deal.locate(NUMBERS_MAX), None);
    }

    #[test]
    fn the_local_indexes_of_a_take_are_consecutive() {
        let deal = deal(10, 3, Some(100));
        let mut share = deal.share(1);
        let mut next = 0;
        while let Some(range) = share.take(4) {
            for (local, number) in (next..).zip(range) {
                assert_eq!(deal.locate(number), Some(Place { worker: 1, local }));
            }
            next = share.taken();
        }
    }

    #[test]
    fn an_impossible_deal_is_refused() {
        assert_eq!(Deal::new(0, 1, None), Err(Error::Block(0)));
        assert_eq!(Deal::new(1, 0, None), Err(Error::Workers(0)));
        assert_eq!(Deal::new(1, WORKERS_MAX + 1, None), Err(Error::Workers(WORKERS_MAX + 1)));
        assert_eq!(Deal::new(1, 1, Some(NUMBERS_MAX + 1)), Err(Error::Limit(NUMBERS_MAX + 1)));
    }
}
