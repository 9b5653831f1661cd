//! Publishes the versions of this worker's documents to the others, and picks documents of others for some reads.

use std::ops::Range;

use plimsoll_ledger::Slot;

use super::{Bound, Owner, PickedDocument, WorkerLedger};
use crate::setup::{Freshness, Validity};
use crate::shared_bounds::{Origin, SharedBounds};

impl WorkerLedger {
    /// Publishes inserted documents.
    pub(super) fn publish_inserted(&self, numbers: Range<u64>) {
        let Some(shared) = &self.shared else { return };
        for number in SharedBounds::sampled(numbers) {
            if let Some(slot) = self.allocation.locate(number) {
                self.publish_to(shared, number, slot);
            }
        }
    }

    /// Publishes the acknowledged version of a document.
    #[inline]
    pub(super) fn publish(&self, number: u64, slot: Slot) {
        if let Some(shared) = self.shared.as_ref().filter(|_| SharedBounds::is_sampled(number)) {
            self.publish_to(shared, number, slot);
        }
    }

    fn publish_to(&self, shared: &SharedBounds, number: u64, slot: Slot) {
        let known = self.changes.versions.at(slot);
        if !known.may_be_deleted() && !self.changes.touched.contains(slot) {
            shared.publish(number, known.acknowledged());
        }
    }

    /// Withdraws a document before a change without a version is sent.
    pub(super) fn retract(&self, number: u64) {
        self.shared.iter().for_each(|shared| shared.retract(number));
    }

    /// Withdraws all documents before a change that may touch any of them.
    pub(super) fn retract_all(&self) {
        self.shared.iter().for_each(|shared| shared.close());
    }

    /// A document of any worker for the read with this random word; `None` for most reads.
    #[inline]
    pub fn pick_shared(&self, random: u64) -> Option<PickedDocument> {
        let number = self.shared.as_ref().filter(|_| !self.pretended)?.draw(random)?;
        Some(PickedDocument {
            number,
            bound: self.shared_bound(number, Validity::Unproven, Origin::Unknown),
            change: None,
            freshness: Freshness::Latest,
            validity: Validity::Unproven,
            owner: Owner::Any,
        })
    }

    /// The current bound of a read of a document that any worker may own. Empty if the document is no longer shared.
    pub fn shared_bound(&self, number: u64, validity: Validity, origin: Origin) -> Bound {
        let least = self.shared.as_ref().and_then(|shared| shared.version(number));
        let read = |origin| least.and_then(|_| self.shown_to_any(number, validity, origin));
        let (read, read_of_any) = (read(origin), read(Origin::Unknown));
        Bound { promised: least.is_some(), least, read, read_of_any, origin, ..Bound::default() }
    }

    /// The version that a read of any worker has shown and that a majority has. A later read at majority
    /// from the same origin must not return an older version; nor must a linearizable read from any origin. A replaced
    /// primary may answer other reads for a while.
    #[inline]
    pub(super) fn shown_to_any(&self, number: u64, validity: Validity, origin: Origin) -> Option<u32> {
        if !SharedBounds::is_sampled(number) {
            return None;
        }
        match (validity, origin) {
            (Validity::Ordered, _) => self.shared.as_ref()?.shown(number, None),
            (Validity::Permanent, Origin::Known(_)) => self.shared.as_ref()?.shown(number, Some(origin)),
            _ => None,
        }
    }

    /// Raises the bound of all workers' reads to a version that a read has shown, if a majority has it.
    #[inline]
    pub fn show_to_all(&self, number: u64, version: u32, validity: Validity, origin: Origin) {
        if validity.is_permanent() {
            self.shared.iter().for_each(|shared| shared.raise(number, version, origin));
        }
    }
}
