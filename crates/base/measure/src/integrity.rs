//! Counts the documents that an audit found against those that were promised.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::consistency::Consistency;

/// The maximum number of examples after a merge.
const EXAMPLES_MAX: usize = 20;

/// The extent to which an audit compared the stored documents with the promises.
///
/// In order of decreasing strength. Merged shards have the weaker one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Every receipt was searched and every content recomputed.
    #[default]
    Proven,
    /// Every document was requested from the service by its key; its content was compared as far as the check of that request does.
    ReadBack,
    /// The documents have ids other than receipts: they were counted, not proven.
    Counted,
    /// The scenario cannot promise anything (`w: 0`).
    FireAndForget,
    /// Capped or expiring collection: documents may vanish by design.
    NotApplicable,
    /// No audit ran; see `reason`.
    NotAudited,
}

/// The promised and the existing documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Integrity {
    /// The proof that the counts below give.
    pub proof: Proof,
    /// Why the proof is less than complete, if it is.
    pub reason: Option<String>,
    /// The write concern that was declared, as JSON, or the server's default. Different ones are listed with their operations.
    pub write_concern: String,
    /// Documents that the server acknowledged.
    pub acknowledged: u64,
    /// Acknowledged documents that exist.
    pub found: u64,
    /// Acknowledged documents that are missing, or that exist in an older version than the last acknowledged one.
    pub lost: u64,
    /// Documents that exist although they were never sent, were rejected, or were deleted.
    pub phantom: u64,
    /// Documents that exist more than once.
    pub duplicated: u64,
    /// Documents whose content differs from the content of their receipt.
    pub corrupted: u64,
    /// Documents that a read during the load showed, and that are missing or older now. The server did not acknowledge them: a
    /// document that it acknowledged counts as lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_then_gone: u64,
    /// Transactions with an unknown commit: the server has some of their writes and lacks others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub half_transactions: u64,
    /// Transactions with an unknown commit that were not checked, because the ledger keeps no more: an open question.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unchecked_transactions: u64,
    /// Updates that the server acknowledged and that the documents lack: increments (`$inc`), and other operators whose result
    /// follows from the number of updates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_increments: u64,
    /// Updates that the documents show beyond those sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_increments: u64,
    /// Acknowledged documents that exist and that an index lacks, counted once for each such index.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_from_index: u64,
    /// Documents that a member of a replica set lacks, or that differ there from the primary's, counted once for each such member.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub member_differences: u64,
    /// Documents that a mongos shows and no shard holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unplaced: u64,
    /// Errors that the server's own `validate` found in the collection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub validation_errors: u64,
    /// Reads during the load that showed an older version than one acknowledged or read before, no document where one was
    /// acknowledged or read before, or content that was never sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong_reads: u64,
    /// Documents that the server refused.
    pub rejected: u64,
    /// Documents of unknown outcome that exist.
    pub unknown_present: u64,
    /// Documents of unknown outcome that are missing.
    pub unknown_absent: u64,
    /// Documents whose deletion the server acknowledged.
    #[serde(default)]
    pub deleted: u64,
    /// Documents that another operation may have changed or removed.
    pub not_audited: u64,
    /// The changes of the plan that the audit cannot judge, a sentence each. Nothing is proven about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<String>,
    /// Documents in the collection that are not of this run.
    pub foreign: u64,
    /// Whether the run knew of no other writer: the collection was empty before. Documents without receipt and stamp are phantoms then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_alone: bool,
    /// The foreign documents of other runs, by the run's ID; at most eight runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign_runs: BTreeMap<String, u64>,
    /// A few receipts of each kind of violation, as `kind: receipt`.
    pub examples: Vec<String>,
    /// The length of the audit, in seconds.
    pub audit_s: f64,
    /// The check of the collection's indexes.
    #[serde(default, skip_serializing_if = "Indexes::is_empty")]
    pub indexes: Indexes,
    /// The comparison of the members of replica sets.
    #[serde(default, skip_serializing_if = "Members::is_empty")]
    pub members: Members,
    /// The documents on each shard.
    #[serde(default, skip_serializing_if = "Shards::is_empty")]
    pub shards: Shards,
    /// The check of appends to lists, if the scenario has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Consistency>,
}

/// The indexes through which every document was looked for, and the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Indexes {
    /// The names of the indexes.
    pub checked: Vec<String>,
    /// Why others were not checked, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Some errors that the server's own `validate` found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// The members of replica sets whose documents were compared with those of their primary, and the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Members {
    /// The addresses of the compared members.
    pub compared: Vec<String>,
    /// Why others were not compared, a sentence each. Nothing is proven about their copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

impl Members {
    const fn is_empty(&self) -> bool {
        self.compared.is_empty() && self.open.is_empty()
    }

    /// Adds the comparison of another shard of the run, which looked at the same members.
    fn merge(&mut self, other: &Self) {
        add_new(&mut self.compared, &other.compared);
        add_new(&mut self.open, &other.open);
    }
}

/// The documents of the run on each shard of a cluster, read past its mongos.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shards {
    /// The number of documents on each shard, by the shard's name, orphans included.
    pub documents: BTreeMap<String, u64>,
    /// Copies on a further shard that a mongos hides, as an interrupted migration leaves them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orphans: u64,
    /// The reasons why the shards were not read, a sentence each. Empty if they were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Why some shards were not read although others were, a sentence each. Nothing is proven about their copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

impl Shards {
    fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.skipped.is_empty() && self.open.is_empty()
    }

    /// Adds the documents of another shard of the run.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.documents {
            *self.documents.entry(name.clone()).or_default() += count;
        }
        self.orphans += other.orphans;
        add_new(&mut self.skipped, &other.skipped);
        add_new(&mut self.open, &other.open);
    }
}

/// Adds the texts that are new.
fn add_new(mine: &mut Vec<String>, theirs: &[String]) {
    let new: Vec<_> = theirs.iter().filter(|it| !mine.contains(it)).cloned().collect();
    mine.extend(new);
}

impl Indexes {
    const fn is_empty(&self) -> bool {
        self.checked.is_empty() && self.skipped.is_empty() && self.errors.is_empty()
    }

    /// Adds the check of another shard, which looked at the same indexes.
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.checked, &other.checked),
            (&mut self.skipped, &other.skipped),
            (&mut self.errors, &other.errors),
        ] {
            add_new(mine, theirs);
        }
    }
}

impl Integrity {
    /// Whether every promise holds. No promised document is missing, changed or duplicated; no transaction
    /// was applied in part; every counter shows its increments; every index and every member has all
    /// documents; no read was wrong; no anomaly breaks a promise. Nothing is promised where documents vanish
    /// by design. Documents that were not read back are unknown: see [`Self::is_known`].
    pub const fn holds(&self) -> bool {
        if let Some(Consistency { violations: 1.., .. }) = self.consistency {
            return false;
        }
        let kept = self.lost == 0 && self.phantom == 0 && self.duplicated == 0 && self.corrupted == 0;
        let kept = kept && self.read_then_gone == 0 && self.half_transactions == 0;
        let kept = kept && self.lost_increments == 0 && self.extra_increments == 0;
        let kept = kept && self.missing_from_index == 0 && self.validation_errors == 0;
        let kept = kept && self.member_differences == 0 && self.unplaced == 0;
        self.wrong_reads == 0 && (kept || matches!(self.proof, Proof::NotApplicable))
    }

    /// Adds the counts of another shard of the same run. Every shard counts all foreign documents and all documents with other
    /// ids, so the larger count is taken for these.
    pub fn merge(&mut self, other: &Self) {
        let counted = Proof::Counted == self.proof.max(other.proof);
        self.found = if counted { self.found.max(other.found) } else { self.found + other.found };
        self.foreign = self.foreign.max(other.foreign);
        for (run, count) in &other.foreign_runs {
            let sum = self.foreign_runs.entry(run.clone()).or_default();
            *sum = (*sum).max(*count);
        }
        for (sum, part) in [
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.lost, other.lost),
            (&mut self.phantom, other.phantom),
            (&mut self.duplicated, other.duplicated),
            (&mut self.corrupted, other.corrupted),
            (&mut self.read_then_gone, other.read_then_gone),
            (&mut self.half_transactions, other.half_transactions),
            (&mut self.unchecked_transactions, other.unchecked_transactions),
            (&mut self.lost_increments, other.lost_increments),
            (&mut self.extra_increments, other.extra_increments),
            (&mut self.missing_from_index, other.missing_from_index),
            (&mut self.member_differences, other.member_differences),
            (&mut self.unplaced, other.unplaced),
            (&mut self.wrong_reads, other.wrong_reads),
            (&mut self.rejected, other.rejected),
            (&mut self.unknown_present, other.unknown_present),
            (&mut self.unknown_absent, other.unknown_absent),
            (&mut self.deleted, other.deleted),
            (&mut self.not_audited, other.not_audited),
        ] {
            *sum += part;
        }
        self.reason = match self.proof.cmp(&other.proof) {
            Ordering::Less => other.reason.clone(),
            Ordering::Equal => both(self.reason.take(), other.reason.as_ref()),
            Ordering::Greater => self.reason.take(),
        };
        self.proof = self.proof.max(other.proof);
        self.examples.extend(other.examples.iter().cloned());
        self.examples.truncate(EXAMPLES_MAX);
        self.audit_s = self.audit_s.max(other.audit_s);
        self.validation_errors = self.validation_errors.max(other.validation_errors);
        add_new(&mut self.not_judged, &other.not_judged);
        self.indexes.merge(&other.indexes);
        self.members.merge(&other.members);
        self.shards.merge(&other.shards);
    }

    /// Whether the documents were read back.
    pub const fn is_known(&self) -> bool {
        !matches!(self.proof, Proof::NotAudited)
    }

    /// Whether the documents were read back from every member and shard that should have them.
    pub const fn is_whole(&self) -> bool {
        self.is_known() && self.members.open.is_empty() && self.shards.open.is_empty()
    }
}

/// The reasons of two shards, each once.
fn both(mine: Option<String>, theirs: Option<&String>) -> Option<String> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) if !mine.split("; ").any(|one| one == theirs) => {
            Some(format!("{mine}; {theirs}"))
        }
        (mine, theirs) => mine.or_else(|| theirs.cloned()),
    }
}

/// Whether a count is zero, so that the file leaves it out.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_of_two_shards_add_up_and_the_weaker_proof_stays() {
        let part = |from: u64| Integrity {
            acknowledged: from,
            found: from + 1,
            lost: from + 2,
            phantom: from + 3,
            duplicated: from + 4,
            corrupted: from + 5,
            rejected: from + 6,
            unknown_present: from + 7,
            unknown_absent: from + 8,
            deleted: from + 9,
            not_audited: from + 10,
            foreign: from + 11,
            read_then_gone: from + 12,
            half_transactions: from + 13,
            lost_increments: from + 14,
            extra_increments: from + 15,
            missing_from_index: from + 16,
            member_differences: from + 17,
            unplaced: from + 18,
            unchecked_transactions: from + 19,
            audit_s: from as f64,
            ..Integrity::default()
        };
        let mut sum = part(100);
        sum.merge(&part(2000));
        let whole = part(2100);
        let doubled = Integrity {
            found: whole.found + 1,
            lost: whole.lost + 2,
            phantom: whole.phantom + 3,
            duplicated: whole.duplicated + 4,
            corrupted: whole.corrupted + 5,
            rejected: whole.rejected + 6,
            unknown_present: whole.unknown_present + 7,
            unknown_absent: whole.unknown_absent + 8,
            deleted: whole.deleted + 9,
            not_audited: whole.not_audited + 10,
            foreign: 2011,
            read_then_gone: whole.read_then_gone + 12,
            half_transactions: whole.half_transactions + 13,
            lost_increments: whole.lost_increments + 14,
            extra_increments: whole.extra_increments + 15,
            missing_from_index: whole.missing_from_index + 16,
            member_differences: whole.member_differences + 17,
            unplaced: whole.unplaced + 18,
            unchecked_transactions: whole.unchecked_transactions + 19,
            audit_s: 2000.0,
            ..whole
        };
        assert_eq!(sum, doubled);
        let unread = Integrity { proof: Proof::NotAudited, reason: Some("away".into()), ..part(0) };
        sum.merge(&unread);
        assert_eq!((sum.is_known(), sum.reason.as_deref()), (false, Some("away")));
    }

    #[test]
    fn reasons_of_shards_with_equal_proofs_are_kept_each_once() {
        let part = |reason: Option<&str>| Integrity {
            proof: Proof::ReadBack,
            reason: reason.map(str::to_owned),
            ..Integrity::default()
        };
        let mut sum = part(None);
        for reason in [Some("a"), None, Some("b"), Some("a"), Some("b")] {
            sum.merge(&part(reason));
        }
        assert_eq!(sum.reason.as_deref(), Some("a; b"));
    }

    #[test]
    fn shards_of_a_run_add_up_the_documents_of_each_shard_and_name_each_open_member_once() {
        let part = |documents| Integrity {
            members: Members { compared: vec!["a".into()], open: vec!["b was down.".into()] },
            shards: Shards {
                documents: BTreeMap::from([("s0".into(), documents)]),
                orphans: 2,
                skipped: Vec::new(),
                open: Vec::new(),
            },
            ..Integrity::default()
        };
        let mut sum = part(3);
        sum.merge(&part(4));
        let members = Members { compared: vec!["a".into()], open: vec!["b was down.".into()] };
        assert_eq!((sum.members.clone(), sum.shards.documents["s0"], sum.shards.orphans), (members, 7, 4));
        assert_eq!((sum.is_known(), sum.is_whole(), Integrity::default().is_whole()), (true, false, true));
        let mut unread = Integrity::default();
        unread.shards.open = vec!["The shard s1 was not read.".into()];
        assert!(unread.holds() && !unread.is_whole());
    }

    #[test]
    fn documents_with_ids_of_their_own_are_counted_once() {
        let counted =
            |found| Integrity { proof: Proof::Counted, acknowledged: 5, found, ..Integrity::default() };
        let mut sum = counted(10);
        sum.merge(&counted(9));
        assert_eq!((sum.acknowledged, sum.found), (10, 10));
    }

    #[test]
    fn documents_that_expire_are_no_violation_and_unread_documents_prove_nothing() {
        let lost = Integrity { lost: 3, ..Integrity::default() };
        assert!(!lost.holds());
        assert!(Integrity { proof: Proof::NotApplicable, ..lost }.holds());
        assert!(!Integrity { read_then_gone: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { half_transactions: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { lost_increments: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { extra_increments: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { missing_from_index: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { validation_errors: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { member_differences: 1, ..Integrity::default() }.holds());
        assert!(!Integrity { unplaced: 1, ..Integrity::default() }.holds());
        let wrong = Integrity { wrong_reads: 1, proof: Proof::NotApplicable, ..Integrity::default() };
        assert!(!wrong.holds(), "a wrong read is wrong wherever documents vanish by design");
        let anomaly = Consistency { violations: 1, ..Consistency::default() };
        assert!(!Integrity { consistency: Some(anomaly), ..Integrity::default() }.holds());
        assert!(Integrity { consistency: Some(Consistency::default()), ..Integrity::default() }.holds());
        assert!(!Integrity { proof: Proof::NotAudited, ..Integrity::default() }.is_known());
    }
}
