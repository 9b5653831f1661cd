//! What an audit found: the documents promised against the documents there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the stored documents could be held against what was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Every receipt was looked for and every content recomputed.
    #[default]
    Proven,
    /// Documents keep ids of their own: they were counted, not proven.
    Counted,
    /// The scenario cannot promise anything (`w: 0`).
    FireAndForget,
    /// Capped or expiring collection: documents may vanish by design.
    NotApplicable,
    /// No audit was made; `reason` says why.
    NotAudited,
}

/// Documents promised against documents there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Integrity {
    /// What the numbers below are worth.
    pub proof: Proof,
    /// Why the proof is less than complete, if it is.
    pub reason: Option<String>,
    /// The write concern that was declared, as JSON, or the server's default.
    pub write_concern: String,
    /// Documents that the server acknowledged.
    pub acknowledged: u64,
    /// Acknowledged documents that are there.
    pub found: u64,
    /// Acknowledged documents that are not there, or there in an earlier version than the one acknowledged last.
    pub lost: u64,
    /// Documents that are there though they were never sent, were rejected, or were deleted.
    pub phantom: u64,
    /// Documents that are there more than once.
    pub duplicated: u64,
    /// Documents whose content does not follow from their receipt.
    pub corrupted: u64,
    /// Documents that the server refused.
    pub rejected: u64,
    /// Documents of unknown outcome that are there.
    pub unknown_present: u64,
    /// Documents of unknown outcome that are not there.
    pub unknown_absent: u64,
    /// Documents whose deletion the server acknowledged.
    #[serde(default)]
    pub deleted: u64,
    /// Documents that another operation may have changed or removed.
    pub not_audited: u64,
    /// Documents in the collection that are not of this run.
    pub foreign: u64,
    /// A few receipts of each kind of violation, as `kind: receipt`.
    pub examples: Vec<String>,
    /// How long the audit took, in seconds.
    pub audit_s: f64,
}

impl Integrity {
    /// Whether nothing that was promised is missing, changed or there twice. Where documents vanish by design nothing
    /// was promised; what was not read back is not known, see [`Self::is_known`].
    pub const fn holds(&self) -> bool {
        matches!(self.proof, Proof::NotApplicable)
            || (self.lost == 0 && self.phantom == 0 && self.duplicated == 0 && self.corrupted == 0)
    }

    /// Whether the documents were read back at all.
    pub const fn is_known(&self) -> bool {
        !matches!(self.proof, Proof::NotAudited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vanishing_by_design_is_no_violation_and_not_reading_is_no_proof() {
        let lost = Integrity { lost: 3, ..Integrity::default() };
        assert!(!lost.holds());
        assert!(Integrity { proof: Proof::NotApplicable, ..lost }.holds());
        assert!(!Integrity { proof: Proof::NotAudited, ..Integrity::default() }.is_known());
    }
}
