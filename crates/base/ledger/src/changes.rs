//! What became of documents after they were inserted.

use crate::numbers::{Deal, Place};
use crate::touched::Touched;
use crate::versions::{Version, Versions};

/// Changes of documents that were there: those that can be followed, and those that cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Replacements and deletions, version by version.
    pub versions: Versions,
    /// Documents that something else may have changed: of these nothing is claimed.
    pub touched: Touched,
}

/// What is known of one document that was changed, on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub(crate) place: Place,
    pub(crate) version: Version,
    pub(crate) touched: bool,
}

impl Changes {
    /// Adds what another owner, or a shard of the same deal, knows.
    pub fn merge(&mut self, other: &Self) {
        self.versions.merge(&other.versions);
        self.touched.merge(&other.touched);
    }

    /// All that is known of a document.
    pub fn at(&self, place: Place) -> Changed {
        let (version, touched) = (self.versions.at(place), self.touched.contains(place));
        Changed { place, version, touched }
    }

    /// Puts what was known of a document in place of what is; a mark stays.
    pub(crate) fn put(&mut self, deal: &Deal, changed: &Changed) {
        self.versions.put(changed.place, changed.version);
        if changed.touched {
            self.touched.put(deal, changed.place);
        }
    }
}
