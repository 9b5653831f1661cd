//! Records the changes of documents after their insertion.

use crate::kinds::Kinds;
use crate::numbers::{Allocation, Slot};
use crate::touched::Touched;
use crate::transactions::Transactions;
use crate::versions::{Version, Versions};

/// Changes of existing documents: tracked and untracked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Replacements and deletions, version by version.
    pub versions: Versions,
    /// The updates of each kind, if the plan has several. They also count as increments in `versions`.
    pub kinds: Kinds,
    /// Documents that an untracked operation may have changed: the audit claims nothing about them.
    pub touched: Touched,
    /// Transactions whose commit has an unknown outcome.
    pub transactions: Transactions,
}

/// The record of one changed document, on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub(crate) slot: Slot,
    pub(crate) version: Version,
    pub(crate) touched: bool,
}

impl Changes {
    /// Adds the changes of another owner or of a shard of the same allocation.
    pub fn merge(&mut self, other: &Self) {
        self.versions.merge(&other.versions);
        self.kinds.merge(&other.kinds);
        self.touched.merge(&other.touched);
        self.transactions.merge(&other.transactions);
    }

    /// The record of a document's changes.
    pub fn at(&self, slot: Slot) -> Changed {
        let (version, touched) = (self.versions.at(slot), self.touched.contains(slot));
        Changed { slot, version, touched }
    }

    /// Replaces the record of a document. An existing mark stays.
    pub(crate) fn put(&mut self, allocation: &Allocation, changed: &Changed) {
        self.versions.put(changed.slot, changed.version);
        if changed.touched {
            self.touched.put(allocation, changed.slot);
        }
    }
}
