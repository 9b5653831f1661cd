//! Picks the document for an operation: owned by this worker, existing, and without a change in flight.

use plimsoll_ledger::{Slot, State};

use super::changes::intent;
use super::{Bound, Given, PendingChange, WorkerLedger};
use crate::keys::{Candidates, Keys};
use crate::setup::{Freshness, Purpose, Validity};
use crate::shared_bounds::Origin;

/// The number of random draws before the neighbours of the last drawn document are tried.
const DRAWS_MAX: u32 = 8;
/// The number of neighbours that are tried before an unsuitable document is picked, such as one with a change
/// in flight.
const NEIGHBOURS_MAX: u64 = 4096;

/// The document of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickedDocument {
    /// The document's number.
    pub number: u64,
    /// The lower bounds of a read. Until the operation is sent they are those of its preparation.
    pub bound: Bound,
    /// The change noted as sent; `None` for a read or a touch.
    pub change: Option<PendingChange>,
    /// The version that a read must return.
    pub freshness: Freshness,
    /// The validity of the version that a read shows.
    pub validity: Validity,
    /// The worker that owns the document.
    pub owner: Owner,
}

/// The worker that owns a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// This worker, which knows all of its changes.
    #[default]
    This,
    /// Any worker: only its shared version is known.
    Any,
}

impl PickedDocument {
    /// The document of an operation that returns only a part of it. Such a read only proves that the document
    /// exists.
    pub fn in_part(self) -> Self {
        Self { bound: Bound { least: None, ..self.bound }, ..self }
    }
}

/// The suitability of a document for an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The document exists, and no other operation changes it.
    Good,
    /// The document may not exist.
    Unsure,
    /// A change of the document is in flight, or has an unknown outcome.
    Busy,
    /// The document is deleted.
    Gone,
}

impl WorkerLedger {
    /// Picks a document for an operation with this purpose; `None` without a suitable document. `draw`
    /// returns a random number for each attempt. Notes the change that will be sent: a version, a removal, or
    /// a touch. Also returns `None` if the worker's intent cannot be written.
    pub fn pick(
        &mut self,
        keys: &Keys,
        purpose: Purpose,
        draw: impl Fn(u32) -> u64,
    ) -> Option<PickedDocument> {
        let (slot, fit) = self.choose(keys, purpose, draw)?;
        let number = self.allocation.global(slot)?;
        let mut picked = PickedDocument {
            number,
            bound: Bound::default(),
            change: None,
            freshness: Freshness::Latest,
            validity: Validity::Unproven,
            owner: Owner::This,
        };
        if self.pretended {
            return Some(picked);
        }
        picked.bound = self.bound(number, picked.validity, Origin::Unknown);
        let change = self.note_change(slot, fit, purpose);
        if !intent(purpose, change).is_none_or(|intent| self.intend(intent)) {
            change.into_iter().for_each(|change| self.withdraw_at(slot, change));
            return None;
        }
        match (change, purpose) {
            (Some(change), _) => {
                if change == PendingChange::Removal {
                    self.retract(number);
                }
                self.note(number);
            }
            (None, Purpose::Read) => {}
            // A removal may be sent while this update is in flight, so the update may find no document.
            (None, Purpose::Unjudged) if fit == Fit::Good => picked.bound.promised = false,
            (None, _) => self.touch(number),
        }
        Some(PickedDocument { change, ..picked })
    }

    /// Notes the operation's change and returns it. `None` for a read, and for an update or a touch whose outcome is not
    /// followed.
    fn note_change(&mut self, slot: Slot, fit: Fit, purpose: Purpose) -> Option<PendingChange> {
        match purpose {
            Purpose::Replace if fit == Fit::Good => {
                self.changes.versions.replace(slot).map(PendingChange::Version)
            }
            Purpose::Increment if fit == Fit::Good => {
                let change = PendingChange::Increment;
                self.send(slot, change).then_some(change)
            }
            Purpose::Update(kind) if fit == Fit::Good => {
                let change = PendingChange::Update(kind);
                self.send(slot, change).then_some(change)
            }
            Purpose::Remove if fit == Fit::Good => {
                self.changes.versions.delete(slot).then_some(PendingChange::Removal)
            }
            _ => None,
        }
    }

    fn choose(&self, keys: &Keys, purpose: Purpose, draw: impl Fn(u32) -> u64) -> Option<(Slot, Fit)> {
        let candidates = self.candidates();
        let mut last = None;
        for attempt in 0..DRAWS_MAX {
            let index = keys.index(candidates, draw(attempt))?;
            let slot = self.slot(index)?;
            let fit = self.fit(slot, purpose);
            if fit == Fit::Good || self.pretended {
                return Some((slot, fit));
            }
            last = Some((index, slot, fit));
        }
        match last? {
            (_, slot, Fit::Unsure) => Some((slot, Fit::Unsure)),
            (index, ..) => self.neighbour(index, candidates.all, purpose),
        }
    }

    /// The next suitable document after an unsuitable one; if no neighbour suits, the first that is not deleted.
    fn neighbour(&self, from: u64, count: u64, purpose: Purpose) -> Option<(Slot, Fit)> {
        let mut second_best = None;
        for step in 0..count {
            if step >= NEIGHBOURS_MAX && second_best.is_some() {
                break;
            }
            let slot = self.slot((from + step) % count)?;
            match self.fit(slot, purpose) {
                Fit::Good => return Some((slot, Fit::Good)),
                Fit::Gone => {}
                fit => second_best = second_best.or(Some((slot, fit))),
            }
        }
        second_best
    }

    fn fit(&self, slot: Slot, purpose: Purpose) -> Fit {
        let known = self.changes.versions.at(slot);
        match purpose {
            _ if known.is_deleted() => Fit::Gone,
            Purpose::Replace | Purpose::Remove if known.is_doubtful() => Fit::Busy,
            _ if known.may_be_deleted() || self.state(slot) != State::Acknowledged => Fit::Unsure,
            _ => Fit::Good,
        }
    }

    /// The documents that this worker owns: its share of the snapshot, then its own later inserts.
    fn candidates(&self) -> Candidates {
        let Given { owned, before } = self.given;
        Candidates {
            all: owned + (self.share.taken() - before),
            settled: owned + self.newest.saturating_sub(before),
        }
    }

    fn slot(&self, index: u64) -> Option<Slot> {
        let (worker, Given { owned, before }) = (self.share.worker(), self.given);
        match index.checked_sub(owned) {
            None => self.snapshot.slot(worker, index),
            Some(own) => Some(Slot { worker, local: before + own }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_ledger::{Allocation, Changes};

    use super::*;
    use crate::snapshot::Snapshot;

    fn ledger(worker: u64) -> WorkerLedger {
        WorkerLedger::new(Allocation::new(10, 2, None).unwrap(), worker, None)
    }

    /// A worker ledger with `count` acknowledged documents.
    fn filled(count: u64) -> WorkerLedger {
        let mut ledger = ledger(0);
        let mut left = count;
        while left > 0 {
            let numbers = ledger.take(left).unwrap();
            left -= numbers.end - numbers.start;
            ledger.settle(numbers, State::Acknowledged);
        }
        ledger
    }

    /// A draw that starts at this fraction of all documents.
    fn at(index: u64, of: u64) -> impl Fn(u32) -> u64 {
        move |_| (u64::MAX / of) * index + u64::MAX / of / 2
    }

    fn read(ledger: &mut WorkerLedger, draw: impl Fn(u32) -> u64) -> Option<u64> {
        ledger.pick(&Keys::Uniform, Purpose::Read, draw).map(|picked| picked.number)
    }

    #[test]
    fn every_document_with_a_number_is_picked_and_no_other() {
        let mut ledger = ledger(1);
        assert_eq!(read(&mut ledger, |_| 7), None);
        ledger.take(10);
        ledger.take(5);
        let mut seen: Vec<_> = (0..1000u64).filter_map(|index| read(&mut ledger, |_| index << 54)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (10..20).chain(30..35).collect::<Vec<_>>());
    }

    #[test]
    fn documents_of_other_workers_are_shared_and_those_in_flight_are_skipped() {
        let (mut first, mut second) = (ledger(0), ledger(1));
        let inserted = first.take(4).unwrap();
        first.settle(inserted, State::Acknowledged);
        let snapshot = Arc::new(Snapshot::of(vec![first.documents(), second.documents()]));
        first.learn(snapshot.clone());
        second.learn(snapshot);
        let picks = |ledger: &mut WorkerLedger| {
            let mut seen: Vec<_> = (0..64u64).filter_map(|index| read(ledger, |_| index << 58)).collect();
            seen.dedup();
            seen
        };
        assert_eq!((picks(&mut first), picks(&mut second)), (vec![0, 1], vec![2, 3]));
        second.take(1);
        let last = |attempt| if attempt == 0 { u64::MAX } else { 0 };
        assert_eq!(read(&mut second, last), Some(2));
        assert_eq!(second.state_of(10), State::Unknown);
    }

    #[test]
    fn a_document_has_one_change_in_flight_at_a_time() {
        let mut ledger = filled(3);
        let replace =
            |ledger: &mut WorkerLedger| ledger.pick(&Keys::Uniform, Purpose::Replace, at(0, 3)).unwrap();
        let picked: Vec<_> = (0..3).map(|_| replace(&mut ledger).number).collect();
        assert_eq!(picked, [0, 1, 2]);
        // No document is free: the first one is picked, and its change counts as a touch.
        let fourth = replace(&mut ledger);
        assert_eq!((fourth.number, fourth.change, ledger.is_touched(0)), (0, None, true));
        ledger.acknowledge(1, PendingChange::Version(1));
        let again = replace(&mut ledger);
        assert_eq!((again.number, again.change), (1, Some(PendingChange::Version(2))));
        assert_eq!(again.bound.least, Some(1));
    }

    #[test]
    fn increments_of_one_document_may_be_in_flight_together() {
        let mut ledger = filled(1);
        let increment =
            |ledger: &mut WorkerLedger| ledger.pick(&Keys::Uniform, Purpose::Increment, |_| 0).unwrap();
        for _ in 0..3 {
            assert_eq!(increment(&mut ledger).change, Some(PendingChange::Increment));
        }
        ledger.acknowledge(0, PendingChange::Increment);
        ledger.withdraw(0, PendingChange::Increment);
        let known = ledger.version(0);
        assert_eq!((known.acknowledged(), known.sent(), ledger.is_touched(0)), (1, 2, false));
    }

    #[test]
    fn a_withdrawn_change_was_never_sent() {
        let mut ledger = filled(1);
        for _ in 0..2 {
            let picked = ledger.pick(&Keys::Uniform, Purpose::Replace, |_| 0).unwrap();
            assert_eq!(picked.change, Some(PendingChange::Version(1)));
            ledger.withdraw(picked.number, PendingChange::Version(1));
        }
        let read = ledger.pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap();
        assert_eq!((read.bound.least, read.change, read.bound.promised), (Some(0), None, true));
    }

    #[test]
    fn a_deleted_document_is_picked_only_if_no_other_is_left() {
        let mut ledger = filled(50);
        let mut gone: Vec<_> = (0..50)
            .map(|_| {
                let picked = ledger.pick(&Keys::Uniform, Purpose::Remove, at(25, 50)).unwrap();
                assert_eq!(picked.change, Some(PendingChange::Removal));
                ledger.acknowledge(picked.number, PendingChange::Removal);
                picked.number
            })
            .collect();
        gone.sort_unstable();
        gone.dedup();
        assert_eq!(gone.len(), 50);
        assert_eq!(read(&mut ledger, |_| 0), None);
    }

    #[test]
    fn a_possibly_deleted_document_is_not_promised() {
        let mut ledger = filled(1);
        ledger.pick(&Keys::Uniform, Purpose::Remove, |_| 0).unwrap();
        let read = ledger.pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap();
        assert_eq!((read.bound.promised, read.bound.least), (false, None));
    }

    #[test]
    fn a_change_without_a_version_touches_its_document() {
        let mut ledger = filled(2);
        let picked = ledger.pick(&Keys::Uniform, Purpose::Touch, |_| 0).unwrap();
        assert!(ledger.is_touched(picked.number) && picked.change.is_none());
        assert_eq!(ledger.pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap().bound.least, None);
        assert_eq!(ledger.pick(&Keys::Uniform, Purpose::Read, at(1, 2)).unwrap().bound.least, Some(0));
    }

    #[test]
    fn an_update_that_is_not_judged_leaves_no_trace() {
        let mut ledger = filled(1);
        let update =
            |ledger: &mut WorkerLedger| ledger.pick(&Keys::Uniform, Purpose::Unjudged, |_| 0).unwrap();
        for _ in 0..1000 {
            assert_eq!(update(&mut ledger).change, None);
        }
        assert_eq!(ledger.changes, Changes::default());
        let read = ledger.pick(&Keys::Uniform, Purpose::Read, |_| 0).unwrap();
        assert_eq!((read.bound.promised, read.bound.least), (true, Some(0)));
        assert!(!update(&mut ledger).bound.promised, "a removal may arrive earlier");
        let removal = ledger.pick(&Keys::Uniform, Purpose::Remove, |_| 0).unwrap();
        assert_eq!(removal.change, Some(PendingChange::Removal));
        update(&mut ledger);
        assert!(ledger.is_touched(0), "it may be deleted");
    }

    #[test]
    fn the_owner_in_the_next_phase_knows_the_versions_of_the_last_phase() {
        let (mut first, second) = (filled(4), ledger(1));
        let picked = first.pick(&Keys::Uniform, Purpose::Replace, at(3, 4)).unwrap();
        first.acknowledge(picked.number, PendingChange::Version(1));
        let snapshot = Arc::new(Snapshot::of(vec![first.documents(), second.documents()]));
        let mut second = second;
        second.learn(snapshot);
        let again = second.pick(&Keys::Uniform, Purpose::Replace, |_| u64::MAX).unwrap();
        assert_eq!((again.number, again.change), (picked.number, Some(PendingChange::Version(2))));
    }

    #[test]
    fn the_latest_document_is_the_newest_acknowledged_one() {
        let mut ledger = filled(5);
        ledger.take(3);
        let keys = Keys::of(crate::scenario::Keys::Latest).unwrap();
        let counts = (0..1000).fold([0; 32], |mut counts, draw| {
            let word = plimsoll_load::mix::scramble(9, draw);
            counts[ledger.pick(&keys, Purpose::Read, |_| word).unwrap().number as usize] += 1;
            counts
        });
        assert_eq!(counts[5..], [0; 27]);
        assert!(counts[4] > counts[3] && counts[3] > counts[1], "{counts:?}");
    }
}
