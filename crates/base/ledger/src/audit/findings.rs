//! Holds the findings of an audit: counts and a few examples.

use std::collections::BTreeMap;

use crate::receipt::Run;

/// The maximum number of examples of each kind.
pub const EXAMPLES_MAX: usize = 100;
/// The maximum number of other runs that are named.
pub const OTHER_RUNS_MAX: usize = 8;

/// The findings of an audit. Each document that was sent is in exactly one of `acknowledged`, `rejected`,
/// unknown (`unknown_present` + `unknown_absent`), `deleted` and `not_audited`; and `acknowledged` is `found` + `lost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Documents that the server acknowledged, without those deleted or not audited.
    pub acknowledged: u64,
    /// Acknowledged documents that exist, intact or corrupted.
    pub found: u64,
    /// Acknowledged documents that are missing, or exist in an earlier version than the one acknowledged last.
    pub lost: u64,
    /// Documents that exist although they were never sent (counted at each sighting), were rejected, or their deletion was
    /// acknowledged.
    pub phantom: u64,
    /// Receipts seen more than once, and documents that carry a known stamp under another `_id`.
    pub duplicated: u64,
    /// Stored documents, with any promise, whose content or stamp contradicts the receipt.
    pub corrupted: u64,
    /// Documents that a read during the load showed, and that are now missing without a removal, or exist in
    /// an earlier version than the read showed. They were not acknowledged: an acknowledged document counts
    /// as lost.
    pub read_then_gone: u64,
    /// Transactions with an unknown commit: the server has some of their writes and lacks others.
    pub half_transactions: u64,
    /// Transactions with an unknown commit that were not checked, because the ledger keeps no more.
    pub unchecked_transactions: u64,
    /// Increments and other updates that the server acknowledged and that existing documents lack.
    pub lost_increments: u64,
    /// Increments and other updates that existing documents show beyond those sent.
    pub extra_increments: u64,
    /// Acknowledged documents that exist and that an index lacks, counted once for each such index.
    pub missing_from_index: u64,
    /// Documents that the server rejected, without those not audited.
    pub rejected: u64,
    /// Documents of unknown outcome that exist.
    pub unknown_present: u64,
    /// Documents of unknown outcome that are missing.
    pub unknown_absent: u64,
    /// Documents of other runs; if other writers are expected, also documents with neither receipt nor stamp of this run.
    pub foreign: u64,
    /// The foreign documents of other runs, at most [`OTHER_RUNS_MAX`] runs.
    pub other_runs: BTreeMap<Run, u64>,
    /// Documents whose deletion was acknowledged.
    pub deleted: u64,
    /// Sent or existing documents that an update, replace or delete may have touched.
    pub not_audited: u64,
    /// The lowest numbers of each violation.
    pub examples: Examples,
}

impl Findings {
    /// Whether every promise holds: no document is lost, phantom, duplicated, corrupted, or gone after a
    /// read; no transaction was applied in part; every counter shows its increments; every index has all
    /// documents.
    pub fn holds(&self) -> bool {
        let documents = [self.lost, self.phantom, self.duplicated, self.corrupted, self.read_then_gone];
        documents == [0; 5]
            && [self.half_transactions, self.lost_increments, self.extra_increments] == [0; 3]
            && self.missing_from_index == 0
    }

    /// Adds the findings of another audit of other documents. The examples are only numbers, so both audits must use the same
    /// numbers for the same documents.
    pub fn merge(&mut self, other: &Findings) {
        self.acknowledged += other.acknowledged;
        self.found += other.found;
        self.lost += other.lost;
        self.phantom += other.phantom;
        self.duplicated += other.duplicated;
        self.corrupted += other.corrupted;
        self.read_then_gone += other.read_then_gone;
        self.half_transactions += other.half_transactions;
        self.unchecked_transactions += other.unchecked_transactions;
        self.lost_increments += other.lost_increments;
        self.extra_increments += other.extra_increments;
        self.missing_from_index += other.missing_from_index;
        self.rejected += other.rejected;
        self.unknown_present += other.unknown_present;
        self.unknown_absent += other.unknown_absent;
        self.foreign += other.foreign;
        add_runs(&mut self.other_runs, &other.other_runs);
        self.deleted += other.deleted;
        self.not_audited += other.not_audited;
        self.examples.merge(&other.examples);
    }
}

/// Adds the counts of each run; runs beyond the limit stay unnamed.
pub(super) fn add_runs(mine: &mut BTreeMap<Run, u64>, theirs: &BTreeMap<Run, u64>) {
    for (run, count) in theirs {
        if mine.len() < OTHER_RUNS_MAX || mine.contains_key(run) {
            *mine.entry(*run).or_default() += count;
        }
    }
}

/// Numbers of example documents, ascending, at most [`EXAMPLES_MAX`] of a kind. A phantom without receipt and stamp has no
/// number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// Lost documents.
    pub lost: Vec<u64>,
    /// Phantoms.
    pub phantom: Vec<u64>,
    /// Documents that exist more than once.
    pub duplicated: Vec<u64>,
    /// Corrupted documents.
    pub corrupted: Vec<u64>,
    /// Documents that a read showed, and that are missing or older.
    pub read_then_gone: Vec<u64>,
    /// The first missing document of each transaction that was applied in part.
    pub half_transactions: Vec<u64>,
    /// Documents whose counters lack acknowledged increments.
    pub lost_increments: Vec<u64>,
    /// Documents whose counters show more increments than were sent.
    pub extra_increments: Vec<u64>,
    /// Documents that an index lacks.
    pub missing_from_index: Vec<u64>,
}

impl Examples {
    pub(crate) fn merge(&mut self, other: &Examples) {
        join(&mut self.lost, &other.lost);
        join(&mut self.phantom, &other.phantom);
        join(&mut self.duplicated, &other.duplicated);
        join(&mut self.corrupted, &other.corrupted);
        join(&mut self.read_then_gone, &other.read_then_gone);
        join(&mut self.half_transactions, &other.half_transactions);
        join(&mut self.lost_increments, &other.lost_increments);
        join(&mut self.extra_increments, &other.extra_increments);
        join(&mut self.missing_from_index, &other.missing_from_index);
    }
}

/// Keeps the lowest of both.
fn join(mine: &mut Vec<u64>, theirs: &[u64]) {
    mine.extend_from_slice(theirs);
    mine.sort_unstable();
    mine.dedup();
    mine.truncate(EXAMPLES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(first: u64) -> Findings {
        let mut next = first..;
        let mut n = || next.next().unwrap();
        Findings {
            acknowledged: n(),
            found: n(),
            lost: n(),
            phantom: n(),
            duplicated: n(),
            corrupted: n(),
            read_then_gone: n(),
            half_transactions: n(),
            unchecked_transactions: n(),
            lost_increments: n(),
            extra_increments: n(),
            missing_from_index: n(),
            rejected: n(),
            unknown_present: n(),
            unknown_absent: n(),
            foreign: n(),
            deleted: n(),
            not_audited: n(),
            other_runs: BTreeMap::new(),
            examples: Examples { lost: vec![first], ..Examples::default() },
        }
    }

    #[test]
    fn merge_of_parts_equals_the_whole_for_every_counter() {
        let mut merged = numbered(100);
        merged.merge(&numbered(1));
        let mut expected = Findings { examples: merged.examples.clone(), ..numbered(0) };
        for (step, counter) in (0..).zip(counters(&mut expected)) {
            *counter = 101 + 2 * step;
        }
        assert_eq!(merged, expected);
        assert_eq!(merged.examples.lost, [1, 100]);
    }

    fn counters(f: &mut Findings) -> [&mut u64; 18] {
        [
            &mut f.acknowledged,
            &mut f.found,
            &mut f.lost,
            &mut f.phantom,
            &mut f.duplicated,
            &mut f.corrupted,
            &mut f.read_then_gone,
            &mut f.half_transactions,
            &mut f.unchecked_transactions,
            &mut f.lost_increments,
            &mut f.extra_increments,
            &mut f.missing_from_index,
            &mut f.rejected,
            &mut f.unknown_present,
            &mut f.unknown_absent,
            &mut f.foreign,
            &mut f.deleted,
            &mut f.not_audited,
        ]
    }

    #[test]
    fn only_violations_break_the_promise() {
        let broken: Vec<usize> = (0..18)
            .filter(|at| {
                let mut findings = Findings::default();
                *counters(&mut findings)[*at] = 1;
                !findings.holds()
            })
            .collect();
        assert_eq!(broken, [2, 3, 4, 5, 6, 7, 9, 10, 11]);
    }
}
