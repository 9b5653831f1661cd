//! Keeps one worker's documents: assigns their numbers, records their outcomes, and picks one for each operation.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_consistency::Transaction;
use plimsoll_ledger::{
    Allocation, Changes, Intents, Page, Share, Slot, State, Touched, WorkerLedger as DocumentStates,
};

use crate::journal_writer::Reservations;
use crate::shared_bounds::SharedBounds;
use crate::snapshot::{Snapshot, WorkerDocuments};

pub use pick::{Owner, PickedDocument};
pub use reads::Bound;

mod changes;
mod pick;
mod reads;
mod sharing;

use reads::Shown;

/// Numbers reserved on disk ahead of the sent documents: some seconds of the fastest load.
const AHEAD: u64 = 1 << 21;

/// One worker's numbers, the outcomes of its documents, and their known changes.
#[derive(Debug)]
pub struct WorkerLedger {
    allocation: Allocation,
    share: Share,
    states: DocumentStates,
    reservations: Option<Reservations>,
    documents_left: Option<u64>,
    /// Numbers of this phase that were taken and not sent.
    returned: Vec<Range<u64>>,
    /// The most document numbers per operation.
    take_max: u64,
    /// The local index after the newest acknowledged document.
    newest: u64,
    /// Whether the documents are simulated, because the server stores none.
    pretended: bool,
    changes: Changes,
    /// Versions that reads have shown.
    shown: Shown,
    /// Changed documents that the journal writer has not received yet.
    changed: Vec<u64>,
    /// The kinds of change announced on disk.
    intents: Intents,
    pages: Vec<Page>,
    snapshot: Arc<Snapshot>,
    given: Given,
    /// The versions that all workers share, if several workers load one deployment.
    shared: Option<Arc<SharedBounds>>,
}

/// One worker's share of the documents in a phase.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// The number of documents that the worker owns, from its own inserts and those of other workers.
    owned: u64,
    /// The number of documents that the worker inserted before the phase.
    before: u64,
}

/// One worker's ledger at the end of a run.
#[derive(Debug)]
pub struct Closed {
    /// The worker's number across all shards.
    pub worker: u64,
    /// The outcomes of its documents.
    pub ledger: DocumentStates,
    /// Documents that other operations may have changed or removed.
    pub touched: Touched,
    /// The appends and reads of lists.
    pub history: Vec<Transaction>,
}

/// A change noted as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingChange {
    /// A replacement by this version.
    Version(u32),
    /// A removal.
    Removal,
    /// An increment of the counter.
    Increment,
    /// An update of this kind.
    Update(u8),
}

impl PendingChange {
    /// Whether attempts of the change add up.
    pub const fn adds_up(self) -> bool {
        matches!(self, Self::Increment | Self::Update(_))
    }
}

impl WorkerLedger {
    /// Opens the ledger of worker `worker`; with `reservations`, every number is reserved on disk before its use.
    pub fn new(allocation: Allocation, worker: u64, reservations: Option<Reservations>) -> Self {
        let states =
            if reservations.is_some() { DocumentStates::new() } else { DocumentStates::unjournaled() };
        Self {
            allocation,
            share: allocation.share(worker),
            states,
            reservations,
            documents_left: None,
            returned: Vec::new(),
            take_max: u64::MAX,
            newest: 0,
            pretended: false,
            changes: Changes::default(),
            shown: Shown::default(),
            changed: Vec::new(),
            intents: Intents::NONE,
            pages: Vec::new(),
            snapshot: Arc::default(),
            given: Given::default(),
            shared: None,
        }
    }

    /// Shares versions with other workers from now on.
    pub fn share(&mut self, shared: Arc<SharedBounds>) {
        self.shared = Some(shared);
    }

    /// The worker's number across all shards.
    pub fn worker(&self) -> u64 {
        self.share.worker()
    }

    /// Limits the number of documents from now on.
    pub fn limit(&mut self, documents: Option<u64>) {
        self.documents_left = documents;
    }

    /// Limits the documents per operation from now on.
    pub fn limit_batches(&mut self, documents: u64) {
        self.take_max = documents;
    }

    /// Takes up to `count` consecutive numbers for one operation, recorded as unknown until their outcome arrives. Returns `None`
    /// if the phase's share is used up, or if a further reservation cannot be written.
    pub fn take(&mut self, count: u64) -> Option<Range<u64>> {
        let count = self.documents_left.map_or(count, |left| left.min(count)).min(self.take_max);
        if count == 0 {
            return None;
        }
        let numbers = self.take_returned(count).or_else(|| self.take_further(count))?;
        self.documents_left = self.documents_left.map(|left| left - (numbers.end - numbers.start));
        Some(numbers)
    }

    /// Takes the lowest numbers that were returned, perhaps fewer than `count`: a finite source has no documents for the highest.
    fn take_returned(&mut self, count: u64) -> Option<Range<u64>> {
        let lowest = (0..self.returned.len()).min_by_key(|at| self.returned[*at].start)?;
        let mut numbers = self.returned.swap_remove(lowest);
        let end = numbers.end.min(numbers.start + count);
        if end < numbers.end {
            self.returned.push(end..numbers.end);
            numbers.end = end;
        }
        self.settle(numbers.clone(), State::Unknown);
        Some(numbers)
    }

    fn take_further(&mut self, count: u64) -> Option<Range<u64>> {
        if !self.reserve(count) {
            return None;
        }
        let first = self.share.taken();
        let numbers = self.share.take(count)?;
        self.states.set(first..self.share.taken(), State::Unknown);
        Some(numbers)
    }

    /// Records documents that are never sent, for a server that stores nothing, so that operations by receipt can name them.
    pub fn pretend(&mut self, count: u64) {
        self.pretended = true;
        let pretended = self.share.take(count);
        debug_assert!(pretended.is_some(), "there are 2^40 numbers");
    }

    /// Returns numbers that were not sent. The next operations of the phase take them.
    pub fn give_back(&mut self, numbers: Range<u64>) {
        self.documents_left = self.documents_left.map(|left| left + (numbers.end - numbers.start));
        self.settle(numbers.clone(), State::NotSent);
        self.returned.push(numbers);
    }

    /// Records the outcome of documents; the numbers lie within one operation.
    pub fn settle(&mut self, numbers: Range<u64>, state: State) {
        if let Some(slot) = self.allocation.locate(numbers.start) {
            let end = slot.local + (numbers.end - numbers.start);
            self.states.set(slot.local..end, state);
            if state == State::Acknowledged {
                self.newest = self.newest.max(end);
                self.publish_inserted(numbers);
            }
        }
    }

    /// This worker's part of the next snapshot.
    pub fn documents(&self) -> WorkerDocuments {
        WorkerDocuments {
            worker: self.share.worker(),
            taken: self.share.taken(),
            states: self.states.clone(),
            changes: self.changes.clone(),
        }
    }

    /// Adopts the snapshot of all workers.
    pub fn learn(&mut self, snapshot: Arc<Snapshot>) {
        self.changes.clone_from(snapshot.changes());
        // From now on these documents may have another owner.
        self.returned.clear();
        let worker = self.share.worker();
        self.given = Given { owned: snapshot.owned(worker), before: snapshot.taken(worker) };
        self.snapshot = snapshot;
    }

    fn state(&self, slot: Slot) -> State {
        if slot.worker == self.share.worker() {
            self.states.state(slot.local)
        } else {
            self.snapshot.state(slot)
        }
    }

    /// The outcome of a document that this worker inserts.
    pub fn state_of(&self, number: u64) -> State {
        self.allocation.locate(number).map_or(State::NotSent, |slot| self.states.state(slot.local))
    }

    /// Hands all new records to the journal writer.
    pub fn flush(&mut self) {
        self.tell_changes();
        let Some(reservations) = &self.reservations else { return };
        self.states.take_dirty(&mut self.pages);
        if !self.pages.is_empty() {
            reservations.flush(std::mem::take(&mut self.pages));
        }
    }

    /// Closes the ledger.
    pub fn close(self) -> Closed {
        let touched = self.changes.touched.clone();
        Closed {
            worker: self.share.worker(),
            ledger: self.states.with_changes(self.changes),
            touched,
            history: Vec::new(),
        }
    }

    /// Makes sure that the next `count` numbers are reserved; false if the write fails.
    fn reserve(&mut self, count: u64) -> bool {
        let Some(reservations) = &self.reservations else { return true };
        let needed = self.share.taken() + count;
        let (next, ahead) = (self.share.taken(), AHEAD.max(2 * count));
        if self.states.wants(next, ahead).is_some() {
            self.states.grant(reservations.granted());
            self.states.wants(next, ahead).into_iter().for_each(|until| reservations.ask(until));
        }
        if self.states.reserved_until() < needed {
            self.states.grant(reservations.wait(needed));
        }
        self.states.reserved_until() >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(limit: Option<u64>) -> WorkerLedger {
        let mut ledger = WorkerLedger::new(Allocation::new(10, 2, None).unwrap(), 1, None);
        ledger.limit(limit);
        ledger
    }

    #[test]
    fn a_limit_holds_to_the_document() {
        let mut ledger = ledger(Some(25));
        let taken: Vec<_> = std::iter::from_fn(|| ledger.take(8)).collect();
        assert_eq!(taken, [10..18, 18..20, 30..38, 38..40, 50..55]);
    }

    #[test]
    fn a_returned_number_does_not_count_and_is_taken_again_in_its_phase() {
        let mut ledger = ledger(Some(10));
        let numbers = ledger.take(10).unwrap();
        ledger.give_back(numbers);
        assert_eq!(ledger.states.counts().unknown, 0);
        let taken: Vec<_> = std::iter::from_fn(|| ledger.take(4)).collect();
        assert_eq!(taken, [10..14, 14..18, 18..20]);
        ledger.give_back(18..20);
        ledger.learn(Arc::new(Snapshot::of(vec![ledger.documents()])));
        assert_eq!(ledger.take(10), Some(30..32), "the snapshot may give 18 and 19 to another worker");
        assert_eq!(ledger.close().ledger.counts().unknown, 10);
    }
}
