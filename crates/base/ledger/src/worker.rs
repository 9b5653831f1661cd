//! Holds one writer's ledger: the states of its documents, its reservation and the pages not yet on disk.

use std::ops::Range;

use crate::changes::Changes;
use crate::pairs::{Counts, DOCUMENTS_PER_PAGE, Page, Pairs, State};

/// The ledger of one worker, over the worker's local indexes. It never waits for the disk: it may not pass its watermark, and
/// hands over copies of changed pages.
#[derive(Clone, Debug, Default)]
pub struct WorkerLedger {
    pairs: Pairs,
    dirty: Vec<u64>,
    reserved_until: u64,
    changes: Changes,
}

impl WorkerLedger {
    /// An empty ledger that may send no document until [`WorkerLedger::grant`] raises its watermark.
    pub fn new() -> WorkerLedger {
        WorkerLedger::default()
    }

    /// An empty ledger without a journal: it may send every document, and a crash loses it.
    pub fn unjournaled() -> WorkerLedger {
        WorkerLedger { reserved_until: u64::MAX, ..WorkerLedger::default() }
    }

    /// The first local index that may not be sent yet.
    #[inline]
    pub fn reserved_until(&self) -> u64 {
        self.reserved_until
    }

    /// Raises the watermark after [`crate::Journals::reserve`] succeeded. It is never lowered.
    pub fn grant(&mut self, until: u64) {
        self.reserved_until = self.reserved_until.max(until);
    }

    /// The next reservation, when fewer than half of `ahead` documents may still be sent from local index `next` on. If `ahead`
    /// covers about two seconds of load, the grant arrives in time.
    pub fn wants(&self, next: u64, ahead: u64) -> Option<u64> {
        let left = self.reserved_until.saturating_sub(next);
        (left < ahead.div_ceil(2)).then(|| next.saturating_add(ahead))
    }

    /// Sets the state of a range of local indexes: `Unknown` when it is sent, then its outcome.
    ///
    /// # Panics
    /// If the range passes the watermark: sending unreserved documents would break the promise that a crash forgets no
    /// document.
    #[inline]
    pub fn set(&mut self, range: Range<u64>, state: State) {
        assert!(range.end <= self.reserved_until, "document {} is not reserved", range.end);
        if range.is_empty() {
            return;
        }
        self.soil(range.start / DOCUMENTS_PER_PAGE..=(range.end - 1) / DOCUMENTS_PER_PAGE);
        self.pairs.fill(range, state as u64);
    }

    /// The state of the document at a local index.
    #[inline]
    pub fn state(&self, local: u64) -> State {
        self.pairs.state(local)
    }

    /// Documents by state.
    pub fn counts(&self) -> Counts {
        self.pairs.counts()
    }

    /// Appends a copy of each page that changed since the last call, in order.
    pub fn take_dirty(&mut self, pages: &mut Vec<Page>) {
        for (at, bits) in self.dirty.iter_mut().enumerate() {
            while *bits != 0 {
                pages.push(self.pairs.copy_page(at * 64 + bits.trailing_zeros() as usize));
                *bits &= *bits - 1;
            }
        }
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.pairs.memory_bytes() + self.dirty.capacity() * size_of::<u64>()
    }

    /// Adds this worker's changes to documents of any worker.
    #[must_use]
    pub fn with_changes(self, changes: Changes) -> WorkerLedger {
        WorkerLedger { changes, ..self }
    }

    pub(crate) fn into_parts(self) -> (Pairs, Changes) {
        (self.pairs, self.changes)
    }

    #[inline]
    fn soil(&mut self, pages: std::ops::RangeInclusive<u64>) {
        for page in pages {
            let at = (page / 64) as usize;
            if at >= self.dirty.len() {
                self.dirty.resize(at + 1, 0);
            }
            self.dirty[at] |= 1 << (page % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "not reserved")]
    fn no_document_beyond_the_watermark_is_sent() {
        let mut ledger = WorkerLedger::new();
        ledger.grant(10);
        ledger.set(5..11, State::Unknown);
    }

    #[test]
    fn the_watermark_never_falls() {
        let mut ledger = WorkerLedger::new();
        ledger.grant(10);
        ledger.grant(5);
        assert_eq!(ledger.reserved_until(), 10);
    }

    #[test]
    fn a_new_reservation_is_requested_when_half_is_used() {
        let mut ledger = WorkerLedger::new();
        assert_eq!(ledger.wants(0, 100), Some(100));
        ledger.grant(100);
        assert_eq!(ledger.wants(50, 100), None);
        assert_eq!(ledger.wants(51, 100), Some(151));
        assert_eq!(WorkerLedger::unjournaled().wants(1 << 39, 1000), None);
    }

    #[test]
    fn each_changed_page_is_handed_over_once() {
        let mut ledger = WorkerLedger::unjournaled();
        let page = DOCUMENTS_PER_PAGE;
        ledger.set(0..1, State::Unknown);
        ledger.set(70 * page - 1..70 * page + 1, State::Unknown);
        let mut pages = Vec::new();
        ledger.take_dirty(&mut pages);
        let starts: Vec<u64> = pages.iter().map(|p| p.documents().start).collect();
        assert_eq!(starts, [0, 69 * page, 70 * page]);
        pages.clear();
        ledger.take_dirty(&mut pages);
        assert!(pages.is_empty());
        ledger.set(1..2, State::Acknowledged);
        ledger.take_dirty(&mut pages);
        assert_eq!(pages.len(), 1);
    }

    #[test]
    fn an_outcome_replaces_unknown() {
        let mut ledger = WorkerLedger::unjournaled();
        ledger.set(0..1000, State::Unknown);
        ledger.set(0..990, State::Acknowledged);
        ledger.set(990..995, State::Rejected);
        ledger.set(995..996, State::NotSent);
        let counts = ledger.counts();
        assert_eq!((counts.acknowledged, counts.rejected, counts.unknown), (990, 5, 4));
        assert_eq!(ledger.state(992), State::Rejected);
    }
}
