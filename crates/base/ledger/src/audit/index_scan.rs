//! Finds documents that exist in the collection and are missing from an index.

use super::Audit;
use crate::numbers::Slot;
use crate::pairs::{Pairs, State};

/// The documents that a scan through one index returned: two bits a document.
#[derive(Clone, Debug)]
pub struct IndexScan {
    seen: Vec<Pairs>,
}

impl Audit<'_> {
    /// A scan through an index that has returned no document yet.
    pub fn index_scan(&self) -> IndexScan {
        IndexScan { seen: vec![Pairs::default(); self.seen.len()] }
    }

    /// Notes that a scan through an index returned the document with this number.
    pub fn see_through(&self, scan: &mut IndexScan, number: u64) {
        if let Some(slot) = self.ledger.allocation().locate(number) {
            scan.seen[slot.worker as usize].put(slot.local, 1);
        }
    }

    /// Notes the documents that the index lacks, after the end of both scans. Compares only acknowledged
    /// documents without a change in doubt: other documents may appear, vanish or move in the index between
    /// the scans.
    pub fn compare_index(&mut self, scan: &IndexScan) {
        let lacks = |slot: &Slot| {
            let known = self.versions.at(*slot);
            let is_still = !known.is_doubtful() && !known.may_be_deleted() && !self.touched.contains(*slot);
            let worker = slot.worker as usize;
            self.ledger.state_at(*slot) == State::Acknowledged
                && self.seen[worker].get(slot.local) != 0
                && scan.seen[worker].get(slot.local) == 0
                && is_still
        };
        let slots = self.ledger.slots().filter(lacks);
        let numbers: Vec<u64> = slots.filter_map(|slot| self.ledger.allocation().global(slot)).collect();
        numbers.into_iter().for_each(|number| self.tally.missing_from_index.note(number));
    }
}
