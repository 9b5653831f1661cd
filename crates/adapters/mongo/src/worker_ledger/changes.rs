//! Records changes of existing documents: notes each change at once, and hands it to the journal writer. The first change of
//! each kind waits until its intent is on disk.

use std::ops::Range;

use plimsoll_ledger::{Changed, Intent, Slot, Span, Touched, Version};

use super::{PendingChange, WorkerLedger};
use crate::setup::Purpose;

/// The number of changed documents that triggers a handover to the journal writer: some hundred operations' worth, so that a
/// crash forgets less than a second of them under a fast load.
const CHANGED_MAX: usize = 256;

impl WorkerLedger {
    /// The version of a document, as far as this worker knows; exact for documents that it owns.
    pub fn version(&self, number: u64) -> Version {
        self.allocation.locate(number).map_or_else(Version::default, |slot| self.changes.versions.at(slot))
    }

    /// Records that the document's change in flight was acknowledged.
    pub fn acknowledge(&mut self, number: u64, change: PendingChange) {
        let Some(slot) = self.allocation.locate(number) else { return };
        match change {
            PendingChange::Increment => self.changes.versions.acknowledge_increment(slot),
            PendingChange::Update(kind) => {
                self.changes.versions.acknowledge_increment(slot);
                self.changes.kinds.acknowledge(kind, slot);
            }
            PendingChange::Version(_) | PendingChange::Removal => self.changes.versions.acknowledge(slot),
        }
        self.publish(number, slot);
        self.note(number);
    }

    /// Records that the document's change in flight did not happen.
    pub fn withdraw(&mut self, number: u64, change: PendingChange) {
        if let Some(slot) = self.allocation.locate(number) {
            self.withdraw_at(slot, change);
            self.note(number);
        }
    }

    pub(super) fn withdraw_at(&mut self, slot: Slot, change: PendingChange) {
        match change {
            PendingChange::Increment => self.changes.versions.withdraw_increment(slot),
            PendingChange::Update(kind) => {
                self.changes.versions.withdraw_increment(slot);
                self.changes.kinds.withdraw(kind, slot);
            }
            PendingChange::Version(_) | PendingChange::Removal => self.changes.versions.withdraw(slot),
        }
    }

    /// Records that an increment or update without an answer may be sent once more. False if it must not be.
    pub fn send_again(&mut self, number: u64, change: PendingChange) -> bool {
        let slot = self.allocation.locate(number);
        let is_noted = slot.is_some_and(|slot| self.send(slot, change));
        self.note(number);
        is_noted
    }

    /// Notes that one more increment or update is sent.
    pub(super) fn send(&mut self, slot: Slot, change: PendingChange) -> bool {
        let is_counted = self.changes.versions.increment(slot);
        match change {
            PendingChange::Update(kind) if is_counted => self.changes.kinds.send(kind, slot),
            _ => is_counted,
        }
    }

    /// The updates of this kind of a document, as far as this worker knows; exact for documents that it owns.
    pub fn updates(&self, kind: u8, number: u64) -> Version {
        let slot = self.allocation.locate(number);
        slot.map_or_else(Version::default, |slot| self.changes.kinds.at(kind, slot))
    }

    /// Whether a change without a version may have altered a document.
    pub fn is_touched(&self, number: u64) -> bool {
        self.allocation.locate(number).is_some_and(|slot| self.changes.touched.contains(slot))
    }

    /// Records that a transaction with these writes may have been committed: all of them exist, or none.
    pub fn doubt_together(&mut self, writes: impl Iterator<Item = Range<u64>>) {
        let writes = writes.filter(|numbers| !numbers.is_empty());
        let span = |numbers: Range<u64>| {
            let first = self.allocation.locate(numbers.start)?;
            Some(Span { first, count: numbers.end - numbers.start })
        };
        let spans = writes.map(span).collect::<Option<Vec<_>>>();
        spans.into_iter().for_each(|spans| self.changes.transactions.add(spans));
    }

    /// Notes that another operation may change or remove a document.
    pub fn touch(&mut self, number: u64) {
        if !self.is_touched(number) {
            self.retract(number);
            self.changes.touched.mark(&self.allocation, number..number + 1);
            self.note(number);
        }
    }

    /// Notes that another operation may change or remove any document.
    pub fn touch_all(&mut self) {
        self.retract_all();
        self.changes.touched = Touched::All;
    }

    /// Announces on disk, before the first change of a kind, that this worker makes such changes. After a crash the last changed
    /// documents may be unknown, but not the kinds of change. False if the write fails; then no change of this kind may be sent.
    pub fn intend(&mut self, intent: Intent) -> bool {
        let Some(reservations) = &self.reservations else { return true };
        if !self.intents.contains(intent) && reservations.intend(intent) {
            self.intents = self.intents.with(intent);
        }
        self.intents.contains(intent)
    }

    /// Queues a document for the journal writer.
    pub(super) fn note(&mut self, number: u64) {
        if self.reservations.is_none() {
            return;
        }
        self.changed.push(number);
        if self.changed.len() >= CHANGED_MAX {
            self.tell_changes();
        }
    }

    /// Hands the changed documents to the journal writer.
    pub(super) fn tell_changes(&mut self) {
        let Some(reservations) = &self.reservations else { return };
        if self.changed.is_empty() {
            return;
        }
        // A change is noted when it is sent and when it is answered, so a document is often queued twice.
        self.changed.sort_unstable();
        self.changed.dedup();
        let slots = self.changed.drain(..).filter_map(|number| self.allocation.locate(number));
        let changed: Vec<Changed> = slots.map(|slot| self.changes.at(slot)).collect();
        reservations.note(changed);
    }
}

/// The kind of change that an operation makes.
pub(super) const fn intent(purpose: Purpose, change: Option<PendingChange>) -> Option<Intent> {
    match (purpose, change) {
        (Purpose::Read, _) => None,
        (_, Some(PendingChange::Version(_) | PendingChange::Increment)) => Some(Intent::Replace),
        (Purpose::Remove, _) => Some(Intent::Remove),
        _ => Some(Intent::Alter),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_ledger::{Allocation, Intents, Recovered, Run, State, recover};

    use super::*;
    use crate::journal_writer::JournalWriter;
    use crate::keys::Keys;

    const RUN: Run = Run { time_s: 1, tag: [1, 2, 3] };

    /// Crashes a worker that changes documents, and returns the state that a later audit recovers.
    fn crashed(dir: &Path, change: impl FnOnce(&mut WorkerLedger)) -> Recovered {
        let allocation = Allocation::new(100, 1, None).unwrap();
        let journal = JournalWriter::start(dir, RUN, allocation, 0..1).unwrap();
        let mut ledger = WorkerLedger::new(allocation, 0, journal.reservations(0));
        let numbers = ledger.take(50).unwrap();
        ledger.settle(numbers, State::Acknowledged);
        change(&mut ledger);
        // The ledger is neither closed nor saved; the journal writer has written everything that it received.
        journal.close().unwrap();
        recover(dir).unwrap()
    }

    fn pick(ledger: &mut WorkerLedger, purpose: Purpose, index: u64) -> u64 {
        let word = ((u128::from(index) << 64) / 50) as u64 + 1;
        ledger.pick(&Keys::Uniform, purpose, |_| word).unwrap().number
    }

    fn versions(recovered: &Recovered, number: u64) -> (u32, u32) {
        let slot = recovered.ledger.allocation().locate(number).unwrap();
        let known = recovered.ledger.changes().unwrap().versions.at(slot);
        (known.acknowledged(), known.sent())
    }

    #[test]
    fn a_change_before_the_last_flush_survives_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let mut touched = 0;
        let recovered = crashed(dir.path(), |ledger| {
            assert_eq!(pick(ledger, Purpose::Replace, 7), 7);
            ledger.acknowledge(7, PendingChange::Version(1));
            assert_eq!(pick(ledger, Purpose::Replace, 8), 8);
            touched = pick(ledger, Purpose::Touch, 9);
            ledger.flush();
            assert_eq!(pick(ledger, Purpose::Replace, 10), 10);
        });
        assert_eq!([7, 8, 10].map(|number| versions(&recovered, number)), [(1, 1), (0, 1), (0, 0)]);
        let slot = recovered.ledger.allocation().locate(touched).unwrap();
        let changes = recovered.ledger.changes().unwrap();
        assert!(changes.touched.contains(slot));
        let meant = Intents::NONE.with(Intent::Replace).with(Intent::Alter);
        assert_eq!(recovered.ledger.unseen(), meant);
    }

    #[test]
    fn the_kind_of_a_change_is_on_disk_before_the_change_is_sent() {
        for (purpose, intent) in [
            (Purpose::Replace, Some(Intent::Replace)),
            (Purpose::Remove, Some(Intent::Remove)),
            (Purpose::Touch, Some(Intent::Alter)),
            (Purpose::Read, None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let recovered = crashed(dir.path(), |ledger| {
                pick(ledger, purpose, 3);
            });
            let expected = intent.into_iter().fold(Intents::NONE, Intents::with);
            assert_eq!(recovered.ledger.unseen(), expected, "{purpose:?}");
        }
    }

    #[test]
    fn many_changes_reach_the_journal_writer_within_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let recovered = crashed(dir.path(), |ledger| {
            for _ in 0..CHANGED_MAX {
                assert_eq!(pick(ledger, Purpose::Replace, 4), 4);
                ledger.acknowledge(4, PendingChange::Version(1));
            }
        });
        assert_eq!(versions(&recovered, 4), (CHANGED_MAX as u32, CHANGED_MAX as u32));
    }

    #[test]
    fn a_run_without_changes_leaves_no_doubt_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let recovered = crashed(dir.path(), WorkerLedger::flush);
        assert_eq!(recovered.ledger.unseen(), Intents::NONE);
        assert_eq!(recovered.ledger.changes(), Some(&plimsoll_ledger::Changes::default()));
        assert_eq!(recovered.ledger.counts().acknowledged, 50);
    }
}
