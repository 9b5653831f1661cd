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
    /// The member's counters lack increments, show too many, or disagree, unlike the primary's.
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
    Counters,
}

impl Audit<'_> {
    /// The number of documents of this run that the scan returned.
    pub fn present(&self) -> u64 {
        self.ledger.slots().filter(|slot| self.seen_at(*slot) != 0).count() as u64
    }

    /// The differences between the documents of this scan of a primary and those of a member, which was
    /// scanned later and has every write that the primary had after its scan. Documents with a change in
    /// doubt are not compared, because the server may apply the change between the scans.
    pub fn differences(&self, member: &Self) -> Differences {
        let mut noted: [Noted; 4] = Default::default();
        for (number, kind) in self.kinds(member) {
            noted[kind as usize].note(number);
        }
        let count = noted.iter().map(|noted| noted.count).sum();
        let [missing, corrupted, extra, counters] = noted.map(|noted| noted.lowest.into_iter().collect());
        Differences { count, missing, corrupted, extra, counters }
    }

    /// The numbers of the documents that differ on a member.
    pub fn differing(&self, member: &Self) -> impl Iterator<Item = u64> {
        self.kinds(member).map(|(number, _)| number)
    }

    fn kinds(&self, member: &Self) -> impl Iterator<Item = (u64, Kind)> {
        let kind = |slot| {
            let kind = self.difference(member, slot).or_else(|| self.counters_of(member, slot))?;
            Some((self.ledger.allocation().global(slot)?, kind))
        };
        self.ledger.slots().filter_map(kind)
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

    /// Whether the counters of a document are wrong on the member alone. The bounds of a counter hold also while an increment is in doubt.
    fn counters_of(&self, member: &Self, slot: Slot) -> Option<Kind> {
        let bits = |audit: &Self| audit.counters[slot.worker as usize].get(slot.local);
        (bits(member) & !bits(self) != 0).then_some(Kind::Counters)
    }

    /// The numbers of the documents that this scan through a mongos shows and that no later scan of a shard has.
    pub fn unplaced(&self, shards: &[Self]) -> impl Iterator<Item = u64> {
        let is_unplaced = |slot: &Slot| {
            self.seen_at(*slot) != 0
                && self.is_settled(*slot)
                && shards.iter().all(|shard| shard.seen_at(*slot) == 0)
        };
        self.ledger.slots().filter(is_unplaced).filter_map(|slot| self.ledger.allocation().global(slot))
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
