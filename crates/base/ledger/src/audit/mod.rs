//! Audits stored documents against the promises of the ledger. The audit is a pure fold, independent of order.

mod sight;

mod halves;

mod fold;

mod index_scan;

mod copies;

mod findings;

pub use copies::{Differences, Placement};
pub use halves::Half;
pub use index_scan::IndexScan;

pub use findings::{EXAMPLES_MAX, Examples, Findings, OTHER_RUNS_MAX};

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::intents::Intent;
use crate::ledger::Ledger;
use crate::numbers::Slot;
use crate::pairs::{Pairs, State};
use crate::receipt::Run;
use crate::touched::{self, Touched};
use crate::transactions::Span;
use crate::versions::Versions;

/// Seen once, and the content follows from the receipt.
const INTACT: u64 = 1;
/// Seen once, with other content.
const CORRUPTED: u64 = 2;
/// Seen more than once.
const REPEATED: u64 = 3;

/// Set aside: a change that the ledger did not record explains the contradiction.
const EXPLAINED: u64 = 1;
/// Set aside: older than promised, without explanation. A document can have both bits.
const UNDONE: u64 = 2;

/// The counters lack acknowledged increments, or disagree.
const LACKING: u64 = 1;
/// The counters show increments that were not sent, or disagree.
const EXCEEDING: u64 = 2;

/// One stored document, as the scan found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its `_id` is a receipt of this run.
    Receipt {
        /// The receipt's number.
        number: u64,
        /// Whether the content follows from the receipt.
        content: Content,
        /// The stamp in the document; `None` if the scenario turned stamps off.
        stamp: Option<i64>,
    },
    /// Its `_id` is a receipt of another run, and its stamp or its content confirms it.
    OtherRun {
        /// The other run; its time is 0 if the form of the `_id` omits it.
        run: Run,
        /// Its stamp, if it has the field.
        stamp: Option<i64>,
    },
    /// Its `_id` is not a receipt of any known run.
    Foreign {
        /// The stamp in the document, if it has the field.
        stamp: Option<i64>,
    },
}

/// Whether a document's content follows from its receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The content follows, in this version: 0 as inserted, then one higher with each replacement.
    Follows(u32),
    /// The content follows except for the counters. The counters show this number of updates since the
    /// insert; `None` if the inserted values are no integers, so that their number is unknown.
    Counted(Option<Shown>),
    /// The content follows except for fields that updates of several kinds change. These fields lack at least
    /// this number of acknowledged updates, and show at least this number of updates beyond those sent.
    Updated {
        /// The missing updates.
        lacking: u64,
        /// The updates that were never sent.
        exceeding: u64,
    },
    /// The content does not follow.
    Differs,
}

/// The updates that the counters of a document show: each update increments each of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The increments of the counter that shows the fewest.
    pub least: i64,
    /// The increments of the counter that shows the most. Both are equal unless an update was applied in part.
    pub most: i64,
}

impl Shown {
    /// The updates that two counters, or two groups of them, show together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// Whether other writers may have used the scanned collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherWriters {
    /// Other writers may have used it: a document without receipt and known stamp counts as foreign.
    #[default]
    Expected,
    /// The collection was empty before the run, so no other writer used it: such a document is a phantom.
    Excluded,
}

/// A running audit: two bits a document, and counters.
///
/// Several scanners may each have an audit and [`Audit::merge`] them; the order of sightings does not matter. Shards of one run
/// that wrote to one collection are audited separately, or together after [`Ledger::merge`]. A shard's ledger is responsible
/// for its workers' documents, and the first shard's also for phantoms outside the allocation. So the findings of the shards
/// add up to those of the whole run; only foreign documents are counted by each shard.
///
/// A document that the server rejected and that exists nevertheless is a phantom. A rejection as a duplicate key counts too:
/// a writer that sends a receipt twice must set the state itself. After a retry of an unknown outcome, "duplicate key" means
/// that the first attempt arrived: `Acknowledged`.
///
/// A replaced document may exist in any version from the last acknowledged to the highest sent. An earlier version is a lost
/// update: the acknowledged version is missing, so the document counts as lost. A later version was never sent: corrupted. A
/// document whose deletion was acknowledged must not exist. A document whose deletion is in doubt is not audited. A version that a
/// read has shown is promised too, although no acknowledgement arrived: a document that is missing or older was read, and is gone.
///
/// The increments of a counter commute, so a document may have several increments in flight. The counter must
/// show at least the acknowledged increments, and at most those sent: fewer are lost increments, more are
/// extra increments. If an update increments several counters, each must show it. Counters that disagree
/// within these bounds show an update that was applied in part: the document is corrupted. If a plan makes updates of several
/// kinds, the ledger counts each kind ([`crate::Kinds`]), and the scanner compares the fields with these counts.
///
/// After a crash of the writers the ledger does not know their last changes, only their intents ([`Ledger::unseen`]). A
/// document is not audited if an intended change explains why it contradicts its promise. Every other contradiction counts.
#[derive(Clone, Debug)]
pub struct Audit<'a> {
    ledger: &'a Ledger,
    versions: &'a Versions,
    touched: &'a Touched,
    other_writers: OtherWriters,
    seen: Vec<Pairs>,
    /// Further bits of a document: [`EXPLAINED`], [`UNDONE`].
    aside: Vec<Pairs>,
    /// Bits of a document whose counters are wrong: [`LACKING`], [`EXCEEDING`].
    counters: Vec<Pairs>,
    /// Documents in doubt that exist in the version of the unanswered replacement.
    renewed: HashSet<Slot>,
    /// Transactions that the server committed during the scan.
    excused: HashSet<&'a [Span]>,
    tally: Tally,
}

/// Counts of findings that no bit records.
#[derive(Clone, Debug, Default)]
struct Tally {
    phantom: Noted,
    duplicated: Noted,
    corrupted: Noted,
    read_then_gone: Noted,
    half_transactions: Noted,
    lost_increments: Noted,
    extra_increments: Noted,
    missing_from_index: Noted,
    foreign: u64,
    other_runs: BTreeMap<Run, u64>,
    upserted: u64,
}

/// A count, and the lowest numbers that were counted.
#[derive(Clone, Debug, Default)]
struct Noted {
    count: u64,
    lowest: BTreeSet<u64>,
}

impl<'a> Audit<'a> {
    /// An audit of documents that were not touched after their insertion.
    pub fn new(ledger: &'a Ledger) -> Audit<'a> {
        Audit::with(ledger, &Touched::None, OtherWriters::default())
    }

    /// An audit that excludes touched documents; `other_writers` says whether other writers may have used the
    /// collection.
    pub fn with(ledger: &'a Ledger, touched: &'a Touched, other_writers: OtherWriters) -> Audit<'a> {
        static NONE: Versions = Versions::new();
        let seen = vec![Pairs::default(); ledger.workers().len()];
        let versions = ledger.changes().map_or(&NONE, |changes| &changes.versions);
        Audit {
            ledger,
            versions,
            touched,
            other_writers,
            aside: seen.clone(),
            counters: seen.clone(),
            seen,
            renewed: HashSet::new(),
            excused: HashSet::new(),
            tally: Tally::default(),
        }
    }

    /// An audit of the same promises without sightings.
    pub fn afresh(&self) -> Audit<'a> {
        Audit::with(self.ledger, self.touched, self.other_writers)
    }

    /// Joins the sightings of another scanner of the same ledger.
    pub fn merge(&mut self, other: &Audit<'a>) {
        self.renewed.extend(&other.renewed);
        self.excused.extend(&other.excused);
        for (mine, theirs) in self.seen.iter_mut().zip(&other.seen) {
            fold::merge_seen(mine, theirs);
        }
        for (mine, theirs) in [(&mut self.aside, &other.aside), (&mut self.counters, &other.counters)] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| touched::union(mine, theirs));
        }
        self.tally.merge(&other.tally);
    }

    /// The numbers of all lost documents so far: acknowledged, not touched, and not seen.
    pub fn lost(&self) -> impl Iterator<Item = u64> {
        let lost = |slot: &Slot| {
            self.ledger.state_at(*slot) == State::Acknowledged
                && self.seen[slot.worker as usize].get(slot.local) == 0
                && !self.touched.contains(*slot)
                && !self.versions.at(*slot).may_be_deleted()
                && !self.is_explained(*slot)
        };
        self.ledger.slots().filter(lost).filter_map(|slot| self.ledger.allocation().global(slot))
    }

    /// Returns the findings after the last sighting.
    pub fn finish(mut self) -> Findings {
        for half in self.halves() {
            self.tally.half_transactions.note(half.missing);
        }
        let mut findings = Findings {
            phantom: self.tally.phantom.count,
            duplicated: self.tally.duplicated.count,
            corrupted: self.tally.corrupted.count,
            read_then_gone: self.tally.read_then_gone.count,
            half_transactions: self.tally.half_transactions.count,
            unchecked_transactions: self
                .ledger
                .changes()
                .map_or(0, |changes| changes.transactions.unchecked()),
            lost_increments: self.tally.lost_increments.count,
            extra_increments: self.tally.extra_increments.count,
            missing_from_index: self.tally.missing_from_index.count,
            foreign: self.tally.foreign,
            other_runs: self.tally.other_runs.clone(),
            not_audited: self.tally.upserted,
            ..Findings::default()
        };
        let known = fold::Known {
            ledger: self.ledger,
            versions: self.versions,
            touched: self.touched,
            seen: &self.seen,
            aside: &self.aside,
        };
        let examples = fold::fold(known, &mut findings);
        findings.examples = self.tally.examples(examples);
        findings
    }

    /// Bytes allocated for the sightings.
    pub fn memory_bytes(&self) -> usize {
        self.seen.iter().chain(&self.aside).chain(&self.counters).map(Pairs::memory_bytes).sum()
    }

    /// Whether an unrecorded change explains the contradiction between a document and its promise.
    fn is_explained(&self, slot: Slot) -> bool {
        let aside = self.aside[slot.worker as usize].get(slot.local);
        aside & EXPLAINED != 0 || aside & UNDONE == 0 && self.ledger.unseen().contains(Intent::Remove)
    }
}

impl Tally {
    fn merge(&mut self, other: &Tally) {
        self.phantom.merge(&other.phantom);
        self.duplicated.merge(&other.duplicated);
        self.corrupted.merge(&other.corrupted);
        self.read_then_gone.merge(&other.read_then_gone);
        self.half_transactions.merge(&other.half_transactions);
        self.lost_increments.merge(&other.lost_increments);
        self.extra_increments.merge(&other.extra_increments);
        self.missing_from_index.merge(&other.missing_from_index);
        self.foreign += other.foreign;
        findings::add_runs(&mut self.other_runs, &other.other_runs);
        self.upserted += other.upserted;
    }

    /// The examples of the fold, together with those of the sightings.
    fn examples(self, folded: Examples) -> Examples {
        let mut examples = Examples {
            phantom: self.phantom.lowest.into_iter().collect(),
            duplicated: self.duplicated.lowest.into_iter().collect(),
            corrupted: self.corrupted.lowest.into_iter().collect(),
            read_then_gone: self.read_then_gone.lowest.into_iter().collect(),
            half_transactions: self.half_transactions.lowest.into_iter().collect(),
            lost_increments: self.lost_increments.lowest.into_iter().collect(),
            extra_increments: self.extra_increments.lowest.into_iter().collect(),
            missing_from_index: self.missing_from_index.lowest.into_iter().collect(),
            ..Examples::default()
        };
        examples.merge(&folded);
        examples
    }
}

impl Noted {
    fn note(&mut self, number: u64) {
        self.note_many(number, 1);
    }

    /// Notes one document with this number of findings.
    fn note_many(&mut self, number: u64, count: u64) {
        self.count += count;
        let full = self.lowest.len() == EXAMPLES_MAX;
        if full && self.lowest.last().is_some_and(|last| number >= *last) {
            return;
        }
        self.lowest.insert(number);
        if self.lowest.len() > EXAMPLES_MAX {
            self.lowest.pop_last();
        }
    }

    fn merge(&mut self, other: &Noted) {
        self.count += other.count;
        self.lowest.extend(&other.lowest);
        while self.lowest.len() > EXAMPLES_MAX {
            self.lowest.pop_last();
        }
    }
}

#[cfg(test)]
mod tests;
