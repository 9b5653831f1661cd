//! Compares the sightings of several scans: of the members of a replica set, and of the shards behind a mongos.

use super::{Audit, CORRUPTED, EXAMPLES_MAX, INTACT, Noted, REPEATED};
use crate::numbers::Slot;
use crate::pairs::State;

/// The documents of one member that differ from those of the primary: counts, and the lowest numbers of each kind, at most
/// [`EXAMPLES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// All differing documents.
    pub count: u64,
    /// The member lacks them, or has them in an earlier version than the acknowledged one.
    pub missing: Vec<u64>,
    /// Only the member's content contradicts the receipt.
    pub corrupted: Vec<u64>,
    /// Only the member has them.
    pub extra: Vec<u64>,
    /// The member's counters lack increments or show too many, unlike the primary's; at most [`EXAMPLES_MAX`] are counted.
    pub counters: Vec<u64>,
}

/// A comparison of the scan through a mongos with those of its shards. A document in doubt is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Copies on further shards that the mongos hides.
    pub orphans: u64,
    /// Documents that the mongos shows and no shard holds: a count, and the lowest numbers.
    pub unplaced: (u64, Vec<u64>),
    /// Acknowledged documents that a shard holds and the mongos does not show: a count, and the lowest numbers.
    pub hidden: (u64, Vec<u64>),
    /// Documents on several shards that the mongos shows several times: a count, and the lowest numbers.
    pub doubled: (u64, Vec<u64>),
}

impl Placement {
    /// Adds the comparison of other shards.
    pub fn merge(&mut self, other: Self) {
        self.orphans += other.orphans;
        let pairs = [&mut self.unplaced, &mut self.hidden, &mut self.doubled].into_iter();
        for (mine, theirs) in pairs.zip([other.unplaced, other.hidden, other.doubled]) {
            mine.0 += theirs.0;
            mine.1.extend(theirs.1);
            mine.1.truncate(EXAMPLES_MAX);
        }
    }
}

/// A kind of difference between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Missing,
    Corrupted,
    Extra,
}

impl Audit<'_> {
    /// The number of documents of this run that the scan returned.
    pub fn present(&self) -> u64 {
        self.ledger.slots().filter(|slot| self.seen_at(*slot) != 0).count() as u64
    }

    /// The differences between the documents of this scan of a primary and those of a member, which was scanned later and has every
    /// write that the primary had after its scan. Documents with a change in doubt are not compared, because it may happen between
    /// the scans.
    pub fn differences(&self, member: &Self) -> Differences {
        let (mut missing, mut corrupted, mut extra) = (Noted::default(), Noted::default(), Noted::default());
        let slots = self.ledger.slots();
        let kinds = slots.filter_map(|slot| Some((slot, self.difference(member, slot)?)));
        for (slot, kind) in kinds {
            let noted = match kind {
                Kind::Missing => &mut missing,
                Kind::Corrupted => &mut corrupted,
                Kind::Extra => &mut extra,
            };
            noted.note_slot(self, slot);
        }
        let counters = self.counters_of(member);
        let count = missing.count + corrupted.count + extra.count + counters.len() as u64;
        let [missing, corrupted, extra] =
            [missing, corrupted, extra].map(|noted| noted.lowest.into_iter().collect());
        Differences { count, missing, corrupted, extra, counters }
    }

    fn difference(&self, member: &Self, slot: Slot) -> Option<Kind> {
        let (here, there) = (self.seen_at(slot), member.seen_at(slot));
        if here == there || !self.is_settled(slot) {
            return None;
        }
        match (here, there) {
            (0, _) if self.ledger.state_at(slot) == State::Unknown => None,
            (0, _) => Some(Kind::Extra),
            (_, 0) => Some(Kind::Missing),
            (INTACT, CORRUPTED) => Some(Kind::Corrupted),
            _ => None,
        }
    }

    /// Documents whose counters are wrong on the member alone.
    fn counters_of(&self, member: &Self) -> Vec<u64> {
        let wrong = |audit: &Self| audit.tally.lost_increments.lowest.clone();
        let extra = |audit: &Self| audit.tally.extra_increments.lowest.clone();
        let mut numbers: Vec<u64> = wrong(member).difference(&wrong(self)).copied().collect();
        numbers.extend(extra(member).difference(&extra(self)));
        numbers.sort_unstable();
        numbers.truncate(EXAMPLES_MAX);
        numbers
    }

    /// Compares this scan through a mongos with the later scans of its shards.
    pub fn placement(&self, shards: &[Self]) -> Placement {
        let mut orphans = 0;
        let (mut unplaced, mut hidden, mut doubled) = (Noted::default(), Noted::default(), Noted::default());
        for slot in self.ledger.slots().filter(|slot| self.is_settled(*slot)) {
            let copies = shards.iter().filter(|shard| shard.seen_at(slot) != 0).count() as u64;
            match (self.seen_at(slot), copies) {
                (0, 1..) if self.ledger.state_at(slot) == State::Acknowledged => hidden.note_slot(self, slot),
                (0, _) => {}
                (_, 0) => unplaced.note_slot(self, slot),
                (REPEATED, 2..) => doubled.note_slot(self, slot),
                _ => orphans += copies - 1,
            }
        }
        let [unplaced, hidden, doubled] =
            [unplaced, hidden, doubled].map(|noted| (noted.count, noted.lowest.into_iter().collect()));
        Placement { orphans, unplaced, hidden, doubled }
    }

    fn seen_at(&self, slot: Slot) -> u64 {
        self.seen[slot.worker as usize].get(slot.local)
    }

    /// Whether no change of a document is in doubt.
    fn is_settled(&self, slot: Slot) -> bool {
        let known = self.versions.at(slot);
        let is_deleted = known.is_deleted();
        !known.is_doubtful() && (is_deleted || !known.may_be_deleted()) && !self.touched.contains(slot)
    }
}

impl Noted {
    fn note_slot(&mut self, audit: &Audit<'_>, slot: Slot) {
        audit.ledger.allocation().global(slot).into_iter().for_each(|number| self.note(number));
    }
}
