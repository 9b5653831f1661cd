//! Tracks the versions of each document: the last acknowledged one, the highest sent one, and whether a read has shown it.
//!
//! A document is inserted as version 0; each replacement is the next version. The owner of a document sends
//! at most one change to it at a time, so that the server receives the versions in order. A change with an
//! unknown outcome leaves the document in doubt. A late attempt of that change could undo a later change on
//! the server, so the owner sends no change of a document in doubt.

use std::fmt;
use std::sync::Arc;

use crate::numbers::Slot;
use crate::pairs::Words;

/// The highest version of a document: the stamp has 24 bits for versions.
pub const VERSION_MAX: u32 = (1 << 24) - 1;
/// The flag of a deletion, set with the removed version. It makes the number greater than every version.
const DELETED: u32 = 1 << 31;
/// The flag of a sent version that a read has shown. Such a version is promised, although the server did not acknowledge it.
const READ: u32 = 1 << 30;
/// The marker of a deletion in older ledgers, which do not record the removed version.
const DELETED_ALONE: u32 = u32::MAX;
/// Documents of one page: 8 bytes each.
pub(crate) const PER_PAGE: u64 = (size_of::<Words>() / 8) as u64;

/// The known version of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    acknowledged: u32,
    sent: u32,
}

/// The versions of the documents of all workers. An unchanged document takes memory only if its page has a
/// changed document. Clones share pages until one of them changes a page.
#[derive(Clone, Default)]
pub struct Versions {
    workers: Vec<Vec<Option<Arc<Words>>>>,
}

/// The known changes of 32 documents: the low bit of a document's pair is set if the document has the property.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lanes {
    /// Its deletion was acknowledged.
    pub deleted: u64,
    /// Its deletion is in doubt.
    pub doubtful: u64,
    /// A read has shown its highest sent version.
    pub read: u64,
}

impl Version {
    /// The last acknowledged version; 0 for an inserted document.
    pub const fn acknowledged(self) -> u32 {
        self.acknowledged
    }

    /// The highest sent version; greater than every version after a deletion was sent.
    pub const fn sent(self) -> u32 {
        if self.may_be_deleted() { self.sent } else { self.sent & !READ }
    }

    /// Whether a change is in flight, or its outcome is unknown.
    pub const fn is_doubtful(self) -> bool {
        self.sent() != self.acknowledged
    }

    /// Whether a read has shown the highest sent version, although the server may not have acknowledged it.
    pub const fn was_read(self) -> bool {
        self.sent & READ != 0 && !self.may_be_deleted()
    }

    /// The lowest version that the document may still have: the last one that was acknowledged or read.
    pub const fn promised(self) -> u32 {
        if self.was_read() { self.sent() } else { self.acknowledged }
    }

    /// Whether the server has acknowledged the deletion of the document.
    pub const fn is_deleted(self) -> bool {
        self.acknowledged & DELETED != 0
    }

    /// Whether a deletion was sent, with any outcome.
    pub const fn may_be_deleted(self) -> bool {
        self.sent & DELETED != 0
    }

    /// The highest sent version, regardless of deletions.
    pub const fn highest(self) -> u32 {
        match self.sent {
            DELETED_ALONE => 0,
            sent => sent & !DELETED & !READ,
        }
    }

    /// The same version with everything in doubt: nothing was acknowledged.
    #[must_use]
    pub const fn as_doubtful(self) -> Self {
        Self { acknowledged: 0, ..self }
    }

    pub(crate) const fn word(self) -> u64 {
        self.acknowledged as u64 | (self.sent as u64) << 32
    }

    pub(crate) const fn of(word: u64) -> Self {
        Self { acknowledged: word as u32, sent: (word >> 32) as u32 }
    }

    const fn max(self, other: Self) -> Self {
        Self {
            acknowledged: if self.acknowledged > other.acknowledged {
                self.acknowledged
            } else {
                other.acknowledged
            },
            sent: match (self.sent & !READ, other.sent & !READ) {
                (mine, theirs) if mine > theirs => self.sent,
                (mine, theirs) if mine < theirs => other.sent,
                _ => self.sent | other.sent,
            },
        }
    }
}

impl Versions {
    /// Versions without changes.
    pub const fn new() -> Self {
        Self { workers: Vec::new() }
    }

    /// The known version of a document.
    #[inline]
    pub fn at(&self, slot: Slot) -> Version {
        let (page, offset) = split(slot.local);
        let pages = self.workers.get(slot.worker as usize);
        let words = pages.and_then(|pages| pages.get(page)).and_then(Option::as_deref);
        words.map_or_else(Version::default, |words| Version::of(words[offset]))
    }

    /// Notes that a replacement is sent, and returns its version. `None` if the document is in doubt, deleted, or has reached
    /// [`VERSION_MAX`].
    #[inline]
    pub fn replace(&mut self, slot: Slot) -> Option<u32> {
        let known = self.at(slot);
        let version = known.acknowledged.checked_add(1).filter(|version| *version <= VERSION_MAX)?;
        (!known.is_doubtful()).then(|| self.put(slot, Version { sent: version, ..known }))?;
        Some(version)
    }

    /// Notes that a deletion is sent. Returns false if the document is in doubt or deleted.
    #[inline]
    pub fn delete(&mut self, slot: Slot) -> bool {
        let known = self.at(slot);
        let fit = !known.is_doubtful() && !known.is_deleted();
        if fit {
            self.put(slot, Version { sent: DELETED | known.acknowledged, ..known });
        }
        fit
    }

    /// Notes that the change in flight was acknowledged.
    #[inline]
    pub fn acknowledge(&mut self, slot: Slot) {
        let known = self.at(slot);
        self.put(slot, Version { acknowledged: known.sent(), sent: known.sent() });
    }

    /// Notes that the change in flight was not sent, or not applied.
    #[inline]
    pub fn withdraw(&mut self, slot: Slot) {
        let known = self.at(slot);
        self.put(slot, Version { sent: known.acknowledged, ..known });
    }

    /// Notes that one more increment is sent. Increments commute, so several may be in flight. Returns false if the document may be
    /// deleted, or has reached [`VERSION_MAX`].
    #[inline]
    pub fn increment(&mut self, slot: Slot) -> bool {
        let known = self.at(slot);
        let fit = !known.may_be_deleted() && known.sent() < VERSION_MAX;
        if fit {
            self.put(slot, Version { sent: known.sent() + 1, ..known });
        }
        fit
    }

    /// Notes that one of the increments in flight was acknowledged.
    #[inline]
    pub fn acknowledge_increment(&mut self, slot: Slot) {
        let known = self.at(slot);
        let acknowledged = (known.acknowledged + 1).min(known.highest());
        self.put(slot, Version { acknowledged, ..known });
    }

    /// Notes that one of the increments in flight was not sent, or not applied.
    #[inline]
    pub fn withdraw_increment(&mut self, slot: Slot) {
        let known = self.at(slot);
        if known.is_doubtful() && !known.may_be_deleted() {
            self.put(slot, Version { sent: known.sent() - 1, ..known });
        }
    }

    /// Notes that a read has shown the highest sent version. Returns false if that was known, or if a deletion was sent.
    #[inline]
    pub fn read(&mut self, slot: Slot) -> bool {
        let known = self.at(slot);
        let is_new = !known.was_read() && !known.may_be_deleted();
        if is_new {
            self.put(slot, Version { sent: known.sent | READ, ..known });
        }
        is_new
    }

    /// Whether no document was ever changed.
    pub fn is_empty(&self) -> bool {
        self.pages().next().is_none()
    }

    /// Merges another owner's versions: for each document the newer entry wins. An owner starts with all earlier entries.
    pub fn merge(&mut self, other: &Self) {
        for (worker, index, theirs) in other.pages() {
            let mine = self.page_slot(worker, index);
            match mine {
                None => *mine = Some(theirs.clone()),
                Some(mine) if Arc::ptr_eq(mine, theirs) => {}
                Some(mine) => join(Arc::make_mut(mine), theirs),
            }
        }
    }

    /// Bytes allocated for pages, including shared pages.
    pub fn memory_bytes(&self) -> usize {
        self.pages().count() * size_of::<Words>()
    }

    /// The known changes of 32 documents from `first` on, in one page.
    #[inline]
    pub(crate) fn lanes(&self, worker: usize, first: u64) -> Lanes {
        let (page, offset) = split(first);
        let words = self.workers.get(worker).and_then(|pages| pages.get(page)).and_then(Option::as_deref);
        let mut lanes = Lanes::default();
        for (lane, word) in words.into_iter().flat_map(|words| &words[offset..offset + 32]).enumerate() {
            let version = Version::of(*word);
            let bit = |is_set: bool| u64::from(is_set) << (2 * lane);
            lanes.deleted |= bit(version.is_deleted());
            lanes.doubtful |= bit(version.may_be_deleted() && !version.is_deleted());
            lanes.read |= bit(version.was_read());
        }
        lanes
    }

    /// The pages that take memory: worker, index and words.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, usize, &Arc<Words>)> {
        self.workers.iter().enumerate().flat_map(|(worker, pages)| {
            let taken = pages.iter().enumerate().filter_map(|(index, page)| Some((index, page.as_ref()?)));
            taken.map(move |(index, words)| (worker, index, words))
        })
    }

    /// Sets a whole page.
    pub(crate) fn set_page(&mut self, worker: usize, index: usize, words: Box<Words>) {
        *self.page_slot(worker, index) = Some(Arc::from(words));
    }

    /// Replaces the known versions of a document.
    pub(crate) fn put(&mut self, slot: Slot, version: Version) {
        let (page, offset) = split(slot.local);
        let words = self.page_slot(slot.worker as usize, page).get_or_insert_with(|| Arc::new([0; _]));
        Arc::make_mut(words)[offset] = version.word();
    }

    fn page_slot(&mut self, worker: usize, index: usize) -> &mut Option<Arc<Words>> {
        if worker >= self.workers.len() {
            self.workers.resize_with(worker + 1, Vec::new);
        }
        let pages = &mut self.workers[worker];
        if index >= pages.len() {
            pages.resize_with(index + 1, || None);
        }
        &mut pages[index]
    }
}

/// Shows only the number of pages: their content would be too long.
impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions").field("pages", &self.pages().count()).finish_non_exhaustive()
    }
}

/// Equal when all documents are equal.
impl PartialEq for Versions {
    fn eq(&self, other: &Self) -> bool {
        let held = |one: &Self, two: &Self| {
            let page = |worker: usize, index: usize| two.workers.get(worker)?.get(index)?.as_deref();
            one.pages().all(|(worker, index, words)| {
                page(worker, index).map_or_else(|| **words == [0; _], |theirs| **words == *theirs)
            })
        };
        held(self, other) && held(other, self)
    }
}

/// The page of a document and its index in the page.
#[inline]
const fn split(local: u64) -> (usize, usize) {
    ((local / PER_PAGE) as usize, (local % PER_PAGE) as usize)
}

fn join(mine: &mut Words, theirs: &Words) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = Version::of(*mine).max(Version::of(*theirs)).word();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Slot = Slot { worker: 1, local: 700 };

    fn known(acknowledged: u32, sent: u32) -> Version {
        Version { acknowledged, sent }
    }

    #[test]
    fn a_replacement_is_the_next_version_once_it_is_acknowledged() {
        let mut versions = Versions::default();
        assert_eq!(versions.replace(PLACE), Some(1));
        assert_eq!(versions.at(PLACE), known(0, 1));
        versions.acknowledge(PLACE);
        assert_eq!(versions.at(PLACE), known(1, 1));
        assert_eq!(versions.replace(PLACE), Some(2));
        versions.withdraw(PLACE);
        assert_eq!((versions.at(PLACE), versions.replace(PLACE)), (known(1, 1), Some(2)));
    }

    #[test]
    fn no_change_is_sent_to_a_doubtful_or_deleted_document() {
        let mut versions = Versions::default();
        versions.replace(PLACE);
        assert_eq!((versions.replace(PLACE), versions.delete(PLACE)), (None, false));
        versions.acknowledge(PLACE);
        assert!(versions.delete(PLACE) && versions.at(PLACE).may_be_deleted());
        assert_eq!((versions.replace(PLACE), versions.delete(PLACE)), (None, false));
        assert_eq!(versions.at(PLACE).acknowledged(), 1);
        versions.acknowledge(PLACE);
        assert!(versions.at(PLACE).is_deleted() && !versions.at(PLACE).is_doubtful());
        assert_eq!((versions.replace(PLACE), versions.delete(PLACE)), (None, false));
    }

    #[test]
    fn a_deletion_keeps_the_version_that_it_removes() {
        let mut versions = Versions::default();
        versions.replace(PLACE);
        assert_eq!(versions.at(PLACE).highest(), 1);
        versions.acknowledge(PLACE);
        versions.delete(PLACE);
        assert_eq!(versions.at(PLACE).highest(), 1);
        versions.acknowledge(PLACE);
        assert_eq!((versions.at(PLACE).highest(), versions.at(PLACE).is_deleted()), (1, true));
        let older = known(DELETED_ALONE, DELETED_ALONE);
        assert!(older.is_deleted() && !older.is_doubtful() && older.highest() == 0);
    }

    #[test]
    fn increments_in_flight_lie_between_the_acknowledged_and_the_sent_count() {
        let mut versions = Versions::default();
        assert!((0..3).all(|_| versions.increment(PLACE)));
        assert_eq!(versions.at(PLACE), known(0, 3));
        versions.acknowledge_increment(PLACE);
        versions.withdraw_increment(PLACE);
        assert_eq!(versions.at(PLACE), known(1, 2));
        assert!(!versions.delete(PLACE), "one is in flight");
        versions.acknowledge_increment(PLACE);
        assert!(versions.delete(PLACE) && !versions.increment(PLACE));
        versions.withdraw_increment(PLACE);
        assert!(versions.at(PLACE).may_be_deleted());
    }

    #[test]
    fn a_read_version_is_promised_and_stays_in_doubt() {
        let mut versions = Versions::default();
        versions.replace(PLACE);
        assert!(versions.read(PLACE) && !versions.read(PLACE));
        let read = versions.at(PLACE);
        assert_eq!((read.acknowledged(), read.promised(), read.sent(), read.highest()), (0, 1, 1, 1));
        assert!(read.was_read() && read.is_doubtful());
        assert_eq!((versions.replace(PLACE), versions.delete(PLACE)), (None, false));
        versions.acknowledge(PLACE);
        assert_eq!(versions.at(PLACE), known(1, 1));
        versions.replace(PLACE);
        versions.read(PLACE);
        versions.withdraw(PLACE);
        assert_eq!(versions.at(PLACE), known(1, 1));
    }

    #[test]
    fn a_sent_deletion_ends_the_promise_of_a_read() {
        let mut versions = Versions::default();
        assert!(versions.read(PLACE) && versions.at(PLACE).was_read());
        assert!(versions.delete(PLACE) && !versions.read(PLACE));
        assert_eq!((versions.at(PLACE).was_read(), versions.at(PLACE).promised()), (false, 0));
        versions.acknowledge(PLACE);
        assert!(versions.at(PLACE).is_deleted() && !versions.at(PLACE).is_doubtful());
    }

    #[test]
    fn an_older_read_does_not_win_over_a_newer_version() {
        let (mut older, mut newer) = (Versions::default(), Versions::default());
        older.read(PLACE);
        newer.replace(PLACE);
        newer.acknowledge(PLACE);
        let merged = |mut mine: Versions, theirs: &Versions| {
            mine.merge(theirs);
            mine.at(PLACE)
        };
        assert_eq!(merged(older.clone(), &newer), known(1, 1));
        assert_eq!(merged(newer.clone(), &older), known(1, 1));
        let mut same = Versions::default();
        same.replace(PLACE);
        newer = same.clone();
        newer.read(PLACE);
        assert_eq!(merged(same, &newer).promised(), 1);
    }

    #[test]
    fn versions_end_where_the_stamp_does() {
        let mut versions = Versions::default();
        versions.put(PLACE, known(VERSION_MAX - 1, VERSION_MAX - 1));
        assert_eq!(versions.replace(PLACE), Some(VERSION_MAX));
        versions.acknowledge(PLACE);
        assert_eq!(versions.replace(PLACE), None);
        assert!(versions.delete(PLACE));
    }

    #[test]
    fn a_clone_is_an_unchanging_snapshot() {
        let mut versions = Versions::default();
        versions.replace(PLACE);
        let before = versions.clone();
        versions.acknowledge(PLACE);
        assert_eq!((before.at(PLACE), versions.at(PLACE)), (known(0, 1), known(1, 1)));
    }

    #[test]
    fn merging_the_owners_in_any_order_equals_the_whole() {
        let mut base = Versions::default();
        let slots: Vec<_> = (0..2000).map(|at| Slot { worker: at % 3, local: at * 7 }).collect();
        for slot in slots.iter().step_by(3) {
            base.replace(*slot);
            base.acknowledge(*slot);
        }
        let (mut whole, mut owners) = (base.clone(), vec![base.clone(), base.clone(), base]);
        for (at, slot) in slots.iter().enumerate() {
            for versions in [&mut whole, &mut owners[at % 3]] {
                versions.replace(*slot);
                match at % 4 {
                    0 => versions.withdraw(*slot),
                    1 => versions.acknowledge(*slot),
                    2 => {
                        versions.acknowledge(*slot);
                        versions.delete(*slot);
                    }
                    _ => {}
                }
            }
        }
        let joined = |order: [usize; 3]| {
            let mut joined = Versions::default();
            order.iter().for_each(|owner| joined.merge(&owners[*owner]));
            joined
        };
        assert_eq!(joined([0, 1, 2]), whole);
        assert_eq!(joined([2, 0, 1]), whole);
        assert_ne!(joined([0, 0, 1]), whole);
    }

    #[test]
    fn pair_bits_distinguish_deleted_from_doubtful_documents() {
        let mut versions = Versions::default();
        let at = |local| Slot { worker: 2, local };
        versions.delete(at(32));
        versions.delete(at(35));
        versions.acknowledge(at(35));
        versions.replace(at(36));
        let lanes = |first| {
            let lanes = versions.lanes(2, first);
            (lanes.deleted, lanes.doubtful)
        };
        assert_eq!(lanes(32), (1 << 6, 1));
        assert_eq!(lanes(64), (0, 0));
        assert_eq!(lanes(1 << 30), (0, 0));
    }

    #[test]
    fn a_touched_document_takes_8_bytes() {
        let mut versions = Versions::default();
        for local in 0..100_000 {
            versions.replace(Slot { worker: 0, local });
        }
        assert!(versions.memory_bytes() <= 100_000 * 8 + 4096, "{}", versions.memory_bytes());
        assert!(Versions::default().is_empty() && !versions.is_empty());
    }
}
