//! What became of documents after they were inserted.

use crate::audit::Touched;
use crate::versions::Versions;

/// Changes of documents that were there: those that can be followed, and those that cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Replacements and deletions, version by version.
    pub versions: Versions,
    /// Documents that something else may have changed: of these nothing is claimed.
    pub touched: Touched,
}

impl Changes {
    /// Adds what another owner, or a shard of the same deal, knows.
    pub fn merge(&mut self, other: &Self) {
        self.versions.merge(&other.versions);
        self.touched.merge(&other.touched);
    }
}
