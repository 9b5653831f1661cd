//! Holds the ledger of a run: the numbers of each worker and the state of each document.

use std::ops::Range;

use crate::changes::Changes;
use crate::intents::Intents;
use crate::numbers::{Allocation, Slot};
use crate::pairs::{Counts, Pairs, State};
use crate::receipt::Run;
use crate::worker::WorkerLedger;

/// The promises of a run: two bits per document, and the later changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    run: Run,
    allocation: Allocation,
    workers: Vec<Pairs>,
    /// The workers in this ledger: all workers, or those of a shard.
    kept: Range<u64>,
    /// The changes after insertion; `None` if unknown: an older directory does not record changes.
    changes: Option<Changes>,
    unseen: Intents,
}

impl Ledger {
    /// A ledger without sent documents.
    pub fn new(run: Run, allocation: Allocation) -> Ledger {
        Ledger::of_shard(run, allocation, 0..allocation.workers())
    }

    /// The ledger of the shard with these workers. It does not know the other workers' documents.
    ///
    /// # Panics
    /// If the allocation has no such workers.
    pub fn of_shard(run: Run, allocation: Allocation, kept: Range<u64>) -> Ledger {
        assert!(kept.end <= allocation.workers(), "worker {} of {} workers", kept.end, allocation.workers());
        let workers = (0..allocation.workers()).map(|_| Pairs::default()).collect();
        Ledger { run, allocation, workers, kept, changes: Some(Changes::default()), unseen: Intents::NONE }
    }

    /// The workers in this ledger.
    pub fn kept(&self) -> Range<u64> {
        self.kept.clone()
    }

    /// Whether this ledger is responsible for a document: the document is in the ledger's shard. The first shard is
    /// responsible for unassigned numbers, so that they are reported once.
    pub(crate) fn is_responsible_for(&self, number: u64) -> bool {
        self.allocation
            .locate(number)
            .map_or(self.is_responsible_for_unassigned(), |slot| self.kept.contains(&slot.worker))
    }

    /// Whether this ledger is responsible for documents outside the allocation.
    pub(crate) const fn is_responsible_for_unassigned(&self) -> bool {
        self.kept.start == 0
    }

    /// The run of these documents.
    pub fn run(&self) -> Run {
        self.run
    }

    /// The allocation of the numbers.
    pub fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// Takes over the ledger of one worker.
    ///
    /// # Panics
    /// If the allocation has no such worker.
    pub fn adopt(&mut self, worker: u64, ledger: WorkerLedger) {
        let (pairs, changes) = ledger.into_parts();
        *self.pairs_mut(worker) = pairs;
        self.changes.iter_mut().for_each(|mine| mine.merge(&changes));
    }

    /// The changes after insertion; `None` if unknown.
    pub fn changes(&self) -> Option<&Changes> {
        self.changes.as_ref()
    }

    /// The kinds of change that may be unrecorded: the last intents after a crash, none after a regular end.
    pub fn unseen(&self) -> Intents {
        self.unseen
    }

    /// The state of a document; `NotSent` when its number is outside the allocation.
    #[inline]
    pub fn state(&self, number: u64) -> State {
        self.allocation.locate(number).map_or(State::NotSent, |slot| self.state_at(slot))
    }

    /// Sets the state of a range of numbers of any worker, one by one. A [`WorkerLedger`] is faster.
    ///
    /// # Panics
    /// If a number is outside the allocation.
    pub fn set(&mut self, numbers: Range<u64>, state: State) {
        for number in numbers {
            let slot = self.allocation.locate(number).expect("only allocated numbers have a state");
            self.pairs_mut(slot.worker).put(slot.local, state as u64);
        }
    }

    /// Documents by state.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.workers.iter().for_each(|pairs| counts.merge(pairs.counts()));
        counts
    }

    /// Joins the ledger of the next shard of the same run.
    ///
    /// # Errors
    /// The other ledger belongs to another run or allocation, both ledgers hold the same worker, or a shard between
    /// them is missing.
    pub fn merge(&mut self, other: Ledger) -> Result<(), Error> {
        if self.run != other.run || self.allocation != other.allocation {
            return Err(Error::OtherRun);
        }
        if other.kept.start < self.kept.end {
            return Err(Error::SameWorker { worker: other.kept.start });
        }
        if other.kept.start > self.kept.end {
            return Err(Error::Missing { worker: self.kept.end });
        }
        self.kept.end = other.kept.end;
        for (mine, theirs) in self.workers.iter_mut().zip(other.workers) {
            if theirs.span() > 0 {
                *mine = theirs;
            }
        }
        self.changes = self.changes.take().zip(other.changes).map(|(mut mine, theirs)| {
            mine.merge(&theirs);
            mine
        });
        self.unseen = self.unseen.or(other.unseen);
        Ok(())
    }

    /// Bytes allocated for the states.
    pub fn memory_bytes(&self) -> usize {
        self.workers.iter().map(Pairs::memory_bytes).sum()
    }

    /// The numbers of all acknowledged documents, worker by worker.
    pub fn acknowledged(&self) -> impl Iterator<Item = u64> {
        self.slots()
            .filter(|slot| self.state_at(*slot) == State::Acknowledged)
            .filter_map(|slot| self.allocation.global(slot))
    }

    /// Every slot that may hold a state.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let workers = self.workers.iter().zip(0..);
        workers.flat_map(|(pairs, worker)| (0..pairs.span()).map(move |local| Slot { worker, local }))
    }

    pub(crate) fn state_at(&self, slot: Slot) -> State {
        self.workers[slot.worker as usize].state(slot.local)
    }

    pub(crate) fn set_changes(&mut self, changes: Option<Changes>) {
        self.changes = changes;
    }

    pub(crate) fn set_unseen(&mut self, unseen: Intents) {
        self.unseen = unseen;
    }

    pub(crate) fn workers(&self) -> &[Pairs] {
        &self.workers
    }

    pub(crate) fn pairs_mut(&mut self, worker: u64) -> &mut Pairs {
        &mut self.workers[worker as usize]
    }
}

/// The reason why two ledgers cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ledgers are not shards of one run.
    #[error("the ledgers are of different runs: join only the shards of one run")]
    OtherRun,
    /// A shard is repeated, or out of order.
    #[error("both ledgers hold documents of worker {worker}: give each shard once, in order")]
    SameWorker {
        /// The worker, over all shards.
        worker: u64,
    },
    /// A shard is missing.
    #[error("no ledger holds the documents of worker {worker}: give every shard, in order")]
    Missing {
        /// The worker, over all shards.
        worker: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { time_s: 1, tag: [1, 2, 3] };

    fn shard(allocation: Allocation, workers: Range<u64>) -> Ledger {
        let mut ledger = Ledger::of_shard(RUN, allocation, workers.clone());
        for worker in workers {
            let mut own = WorkerLedger::unjournaled();
            own.set(0..allocation.allocated_to(worker), State::Acknowledged);
            own.set(0..1, State::Rejected);
            ledger.adopt(worker, own);
        }
        ledger
    }

    #[test]
    fn a_number_has_its_workers_state() {
        let ledger = shard(Allocation::new(10, 2, Some(25)).unwrap(), 0..2);
        assert_eq!(ledger.state(0), State::Rejected);
        assert_eq!(ledger.state(10), State::Rejected);
        assert_eq!(ledger.state(24), State::Acknowledged);
        assert_eq!(ledger.state(25), State::NotSent);
    }

    #[test]
    fn merged_shards_equal_the_whole() {
        let allocation = Allocation::new(10, 4, Some(100)).unwrap();
        let mut joined = shard(allocation, 0..2);
        joined.merge(shard(allocation, 2..4)).unwrap();
        assert_eq!(joined, shard(allocation, 0..4));
        assert_eq!(joined.counts().sent(), 100);
    }

    #[test]
    fn only_different_shards_of_one_run_are_joined() {
        let allocation = Allocation::new(10, 4, Some(100)).unwrap();
        let mut ledger = shard(allocation, 0..2);
        assert_eq!(ledger.merge(shard(allocation, 1..3)), Err(Error::SameWorker { worker: 1 }));
        assert_eq!(shard(allocation, 0..1).merge(shard(allocation, 2..4)), Err(Error::Missing { worker: 1 }));
        let other = Ledger::of_shard(Run { time_s: 2, ..RUN }, allocation, 2..4);
        assert_eq!(ledger.merge(other), Err(Error::OtherRun));
    }

    #[test]
    fn a_hundred_million_documents_of_eight_workers_take_25_mb() {
        let ledger = shard(Allocation::new(1000, 8, Some(100_000_000)).unwrap(), 0..8);
        assert_eq!(ledger.counts().sent(), 100_000_000);
        assert!(ledger.memory_bytes() < 25_200_000, "{} bytes", ledger.memory_bytes());
    }
}
