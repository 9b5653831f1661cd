//! Records the changes of documents after their insertion.

use crate::numbers::{Deal, Place};
use crate::touched::Touched;
use crate::versions::{Version, Versions};

/// Changes of existing documents: tracked and untracked ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Replacements and deletions, version by version.
    pub versions: Versions,
    /// Documents that something else may have changed: the audit claims nothing about them.
    pub touched: Touched,
}

/// The record of one changed document, on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub(crate) place: Place,
    pub(crate) version: Version,
    pub(crate) touched: bool,
}

impl Changes {
    /// Adds the changes of another owner or of a shard of the same deal.
    pub fn merge(&mut self, other: &Self) {
        self.versions.merge(&other.versions);
        self.touched.merge(&other.touched);
    }

    /// The record of a document.
    pub fn at(&self, place: Place) -> Changed {
        let (version, touched) = (self.versions.at(place), self.touched.contains(place));
        Changed { place, version, touched }
    }

    /// Replaces the record of a document; a mark stays.
    pub(crate) fn put(&mut self, deal: &Deal, changed: &Changed) {
        self.versions.put(changed.place, changed.version);
        if changed.touched {
            self.touched.put(deal, changed.place);
        }
    }
}
