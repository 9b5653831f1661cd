//! Counts the updates of each document by kind: how many of each kind were acknowledged, and how many were sent.

use std::sync::Arc;

use crate::numbers::Slot;
use crate::pairs::Words;
use crate::versions::{Version, Versions};

/// The most kinds of update that a ledger counts.
pub const KINDS_MAX: u8 = 8;

/// The updates of each kind. A plan with different updates has a kind for each of them. The updates of one kind
/// commute, so a document may have several in flight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kinds {
    counts: Vec<Versions>,
}

impl Kinds {
    /// The acknowledged and the sent updates of this kind of a document.
    pub fn at(&self, kind: u8, slot: Slot) -> Version {
        self.counts.get(usize::from(kind)).map_or_else(Version::default, |counts| counts.at(slot))
    }

    /// Notes that one more update is sent. Returns false if the ledger cannot count it.
    pub fn send(&mut self, kind: u8, slot: Slot) -> bool {
        kind < KINDS_MAX && self.counts_mut(kind).increment(slot)
    }

    /// Notes that one of the updates in flight was acknowledged.
    pub fn acknowledge(&mut self, kind: u8, slot: Slot) {
        self.counts_mut(kind).acknowledge_increment(slot);
    }

    /// Notes that one of the updates in flight was not sent, or not applied.
    pub fn withdraw(&mut self, kind: u8, slot: Slot) {
        self.counts_mut(kind).withdraw_increment(slot);
    }

    /// Merges the counts of another owner: for each document and kind the newer entry wins.
    pub fn merge(&mut self, other: &Self) {
        for (kind, theirs) in (0..).zip(&other.counts) {
            self.counts_mut(kind).merge(theirs);
        }
    }

    /// The pages that take memory: kind, worker, index and words.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u8, usize, usize, &Arc<Words>)> {
        let kinds = (0..).zip(&self.counts);
        kinds.flat_map(|(kind, counts)| {
            counts.pages().map(move |(worker, index, words)| (kind, worker, index, words))
        })
    }

    /// Sets a whole page of a kind below [`KINDS_MAX`].
    pub(crate) fn set_page(&mut self, kind: u8, worker: usize, index: usize, words: Box<Words>) {
        self.counts_mut(kind).set_page(worker, index, words);
    }

    fn counts_mut(&mut self, kind: u8) -> &mut Versions {
        let kind = usize::from(kind);
        if kind >= self.counts.len() {
            self.counts.resize_with(kind + 1, Versions::default);
        }
        &mut self.counts[kind]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Slot = Slot { worker: 1, local: 700 };

    fn counted(kinds: &Kinds, kind: u8) -> (u32, u32) {
        let known = kinds.at(kind, PLACE);
        (known.acknowledged(), known.sent())
    }

    #[test]
    fn each_kind_has_its_acknowledged_and_sent_updates() {
        let mut kinds = Kinds::default();
        assert!(kinds.send(0, PLACE) && kinds.send(2, PLACE) && kinds.send(2, PLACE) && kinds.send(2, PLACE));
        kinds.acknowledge(2, PLACE);
        kinds.withdraw(2, PLACE);
        assert_eq!([0, 1, 2, 3].map(|kind| counted(&kinds, kind)), [(0, 1), (0, 0), (1, 2), (0, 0)]);
        assert!(!kinds.send(KINDS_MAX, PLACE));
    }

    #[test]
    fn the_newer_count_of_each_kind_wins() {
        let (mut mine, mut theirs) = (Kinds::default(), Kinds::default());
        assert!(mine.send(0, PLACE) && theirs.send(1, PLACE));
        theirs.acknowledge(1, PLACE);
        mine.merge(&theirs);
        assert_eq!([0, 1].map(|kind| counted(&mine, kind)), [(0, 1), (1, 1)]);
    }
}
