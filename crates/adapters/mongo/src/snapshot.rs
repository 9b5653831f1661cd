//! Joins every worker's documents at the start of a phase, so that operations by receipt can name any of them.
//!
//! Each document has one owner among the workers, regardless of the worker that inserted it. Only the owner
//! works on the document. So one worker ledger has the whole state of a document, and every worker has
//! documents even if few connections inserted them.

use std::ops::Range;

use plimsoll_ledger::{Changes, Slot, State, WorkerLedger as DocumentStates};

/// One worker's documents at the start of a phase.
#[derive(Clone, Debug)]
pub struct WorkerDocuments {
    /// The worker's number across all shards.
    pub worker: u64,
    /// The number of documents that it has inserted.
    pub taken: u64,
    /// Their outcomes.
    pub states: DocumentStates,
    /// The changes that the worker made: to documents that it inserted, and to documents of other workers.
    pub changes: Changes,
}

/// The documents of all workers of this process at the start of a phase.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    parts: Vec<WorkerDocuments>,
    changes: Changes,
    /// The documents of each owner, in the order of the workers.
    owned: Vec<Range<u64>>,
}

impl Snapshot {
    /// Joins the parts of all workers, in their order.
    pub fn of(parts: Vec<WorkerDocuments>) -> Self {
        let mut changes = Changes::default();
        parts.iter().for_each(|part| changes.merge(&part.changes));
        let taken: u64 = parts.iter().map(|part| part.taken).sum();
        let owners = parts.len() as u128;
        let first = |slot: usize| (u128::from(taken) * slot as u128 / owners) as u64;
        let owned = (0..parts.len()).map(|slot| first(slot)..first(slot + 1)).collect();
        Self { parts, changes, owned }
    }

    /// Changes made before the phase.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The number of documents that a worker owns.
    pub fn owned(&self, worker: u64) -> u64 {
        self.owned_by(worker).map_or(0, |owned| owned.end - owned.start)
    }

    /// The slot of the document with an index below [`Self::owned`]. The documents of one owner are adjacent, in the order of
    /// their inserts.
    pub fn slot(&self, worker: u64, index: u64) -> Option<Slot> {
        let owned = self.owned_by(worker)?;
        let mut local = owned.start + index;
        if local >= owned.end {
            return None;
        }
        for part in &self.parts {
            if local < part.taken {
                return Some(Slot { worker: part.worker, local });
            }
            local -= part.taken;
        }
        None
    }

    /// The outcome of a document when the phase started; a document without a record was not sent.
    pub fn state(&self, slot: Slot) -> State {
        let part = self.parts.iter().find(|part| part.worker == slot.worker && slot.local < part.taken);
        part.map_or(State::NotSent, |part| part.states.state(slot.local))
    }

    /// The number of documents that a worker had inserted.
    pub fn taken(&self, worker: u64) -> u64 {
        self.parts.iter().find(|part| part.worker == worker).map_or(0, |part| part.taken)
    }

    /// A worker's documents as a range of all documents in their order.
    fn owned_by(&self, worker: u64) -> Option<&Range<u64>> {
        let slot = self.parts.iter().position(|part| part.worker == worker)?;
        self.owned.get(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(worker: u64, taken: u64) -> WorkerDocuments {
        let mut states = DocumentStates::unjournaled();
        states.set(0..taken, State::Acknowledged);
        WorkerDocuments { worker, taken, states, changes: Changes::default() }
    }

    #[test]
    fn every_document_has_one_owner_and_owners_differ_by_one_document_at_most() {
        for taken in [vec![10, 0, 0], vec![3, 4, 1], vec![0, 0, 2], vec![0, 0, 0]] {
            let parts = taken.iter().enumerate().map(|(worker, taken)| part(worker as u64 + 5, *taken));
            let snapshot = Snapshot::of(parts.collect());
            let mut seen = Vec::new();
            for worker in 5..8 {
                let owned = snapshot.owned(worker);
                seen.extend((0..owned).map(|index| snapshot.slot(worker, index).unwrap()));
                assert!(snapshot.slot(worker, owned).is_none());
            }
            let all =
                |(worker, taken): (usize, &u64)| (0..*taken).map(move |local| (worker as u64 + 5, local));
            let mut expected: Vec<_> = taken.iter().enumerate().flat_map(all).collect();
            let mut got: Vec<_> = seen.iter().map(|slot| (slot.worker, slot.local)).collect();
            expected.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, expected);
            assert!(seen.iter().all(|slot| snapshot.state(*slot) == State::Acknowledged));
        }
    }

    #[test]
    fn another_shards_documents_have_no_slot() {
        let snapshot = Snapshot::of(vec![part(0, 3)]);
        assert_eq!((snapshot.owned(1), snapshot.slot(1, 0)), (0, None));
        assert_eq!(snapshot.state(Slot { worker: 0, local: 3 }), State::NotSent);
    }
}
