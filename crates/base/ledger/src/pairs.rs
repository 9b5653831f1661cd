//! Stores two bits per document, for the ledger and the audit, and processes them a word at a time.

use std::ops::Range;

/// Documents in one page of 4 KiB.
pub const DOCUMENTS_PER_PAGE: u64 = 1 << 14;

/// Bytes in a page.
pub(crate) const PAGE_BYTES: usize = 4096;

const WORDS: usize = PAGE_BYTES / 8;
const PER_WORD: usize = 32;

/// The low bit of each pair.
const LOW: u64 = 0x5555_5555_5555_5555;

/// The pairs of one page.
pub(crate) type Words = [u64; WORDS];

static NO_WORDS: Words = [0; WORDS];

/// The state of one document, as two bits.
///
/// A document goes from `NotSent` to `Unknown` when it is handed to the connection, so that a crash leaves it unknown, and then
/// to the outcome in the reply. `Acknowledged` and `Rejected` are final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Not sent: it must not exist.
    #[default]
    NotSent = 0,
    /// The server acknowledged it: it must exist.
    Acknowledged = 1,
    /// The server rejected it: it must not exist.
    Rejected = 2,
    /// Sent with an unknown outcome: it may exist.
    Unknown = 3,
}

impl State {
    fn from_pair(pair: u64) -> State {
        match pair {
            0 => State::NotSent,
            1 => State::Acknowledged,
            2 => State::Rejected,
            _ => State::Unknown,
        }
    }
}

/// The number of sent documents by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Documents that the server acknowledged.
    pub acknowledged: u64,
    /// Documents that the server rejected.
    pub rejected: u64,
    /// Documents of unknown outcome.
    pub unknown: u64,
}

impl Counts {
    /// All sent documents.
    pub fn sent(&self) -> u64 {
        self.acknowledged + self.rejected + self.unknown
    }

    /// Adds the counts of another part.
    pub fn merge(&mut self, other: Counts) {
        self.acknowledged += other.acknowledged;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
    }
}

/// A copy of the states of [`DOCUMENTS_PER_PAGE`] consecutive documents, on its way to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(crate) index: u32,
    pub(crate) words: Box<Words>,
}

impl Page {
    /// The local indexes of the page's documents.
    pub fn documents(&self) -> Range<u64> {
        let start = u64::from(self.index) * DOCUMENTS_PER_PAGE;
        start..start + DOCUMENTS_PER_PAGE
    }
}

/// A growing array of pairs in pages. An unused page takes no memory and reads as 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    pages: Vec<Option<Box<Words>>>,
}

impl Pairs {
    /// Sets each pair of the range to `pair` (0 to 3).
    #[inline]
    pub fn fill(&mut self, range: Range<u64>, pair: u64) {
        let mut at = range.start;
        while at < range.end {
            let page_start = at - at % DOCUMENTS_PER_PAGE;
            let stop = range.end.min(page_start + DOCUMENTS_PER_PAGE);
            let words = self.page_mut((at / DOCUMENTS_PER_PAGE) as usize);
            fill_words(words, (at - page_start) as usize, (stop - page_start) as usize, pair);
            at = stop;
        }
    }

    /// Sets one pair to `pair` (0 to 3).
    #[inline]
    pub fn put(&mut self, at: u64, pair: u64) {
        let words = self.page_mut((at / DOCUMENTS_PER_PAGE) as usize);
        let offset = (at % DOCUMENTS_PER_PAGE) as usize;
        let shift = offset % PER_WORD * 2;
        let word = &mut words[offset / PER_WORD];
        *word = *word & !(3 << shift) | pair << shift;
    }

    /// The pair at an index; 0 if it was never set.
    #[inline]
    pub fn get(&self, at: u64) -> u64 {
        let offset = (at % DOCUMENTS_PER_PAGE) as usize;
        let words = self.page((at / DOCUMENTS_PER_PAGE) as usize);
        words[offset / PER_WORD] >> (offset % PER_WORD * 2) & 3
    }

    /// The state at an index.
    #[inline]
    pub fn state(&self, at: u64) -> State {
        State::from_pair(self.get(at))
    }

    /// The number of documents that the pages span; beyond it every pair is 0.
    pub fn span(&self) -> u64 {
        self.pages.len() as u64 * DOCUMENTS_PER_PAGE
    }

    /// The page at an index; a missing page is empty.
    #[inline]
    pub fn page(&self, index: usize) -> &Words {
        self.pages.get(index).and_then(Option::as_deref).unwrap_or(&NO_WORDS)
    }

    /// The pages that take memory, with their indexes.
    pub fn pages(&self) -> impl Iterator<Item = (usize, &Words)> {
        self.pages.iter().enumerate().filter_map(|(index, page)| Some((index, page.as_deref()?)))
    }

    /// Puts a whole page in place.
    pub fn set_page(&mut self, index: usize, words: Box<Words>) {
        self.reach(index);
        self.pages[index] = Some(words);
    }

    /// A copy of one page.
    pub fn copy_page(&self, index: usize) -> Page {
        let index_u32 = u32::try_from(index).expect("2^40 documents have 2^26 pages");
        Page { index: index_u32, words: Box::new(*self.page(index)) }
    }

    /// Sets each document below `until` that is `NotSent` to `Unknown`.
    pub fn doubt(&mut self, until: u64) {
        for index in 0..until.div_ceil(DOCUMENTS_PER_PAGE) {
            let rest = (until - index * DOCUMENTS_PER_PAGE).min(DOCUMENTS_PER_PAGE) as usize;
            let words = self.page_mut(index as usize);
            for (word, left) in words.iter_mut().zip((1..=rest).rev().step_by(PER_WORD)) {
                let not_sent = lanes(*word, State::NotSent as u64) & up_to(left.min(PER_WORD));
                *word |= not_sent | not_sent << 1;
            }
        }
    }

    /// Counts by state, a word at a time.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for word in self.pages().flat_map(|(_, words)| words) {
            counts.acknowledged += u64::from(lanes(*word, State::Acknowledged as u64).count_ones());
            counts.rejected += u64::from(lanes(*word, State::Rejected as u64).count_ones());
            counts.unknown += u64::from(lanes(*word, State::Unknown as u64).count_ones());
        }
        counts
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.pages().count() * PAGE_BYTES + self.pages.capacity() * size_of::<Option<Box<Words>>>()
    }

    #[inline]
    fn page_mut(&mut self, index: usize) -> &mut Words {
        self.reach(index);
        self.pages[index].get_or_insert_with(|| Box::new(NO_WORDS))
    }

    #[inline]
    fn reach(&mut self, index: usize) {
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || None);
        }
    }
}

/// Equal if every pair is equal, regardless of the allocated pages.
impl PartialEq for Pairs {
    fn eq(&self, other: &Pairs) -> bool {
        let pages = self.pages.len().max(other.pages.len());
        (0..pages).all(|index| self.page(index) == other.page(index))
    }
}

/// The low bit of each pair of `word` that equals `pair`.
#[inline]
pub(crate) fn lanes(word: u64, pair: u64) -> u64 {
    let differs = word ^ (pair * LOW);
    !(differs | differs >> 1) & LOW
}

/// The low bit of each pair of `word` that is not 0.
#[inline]
pub(crate) fn occupied(word: u64) -> u64 {
    (word | word >> 1) & LOW
}

/// The offsets of the pairs in a word that `low_bits` marks.
pub(crate) fn offsets(mut low_bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let at = (low_bits != 0).then(|| u64::from(low_bits.trailing_zeros() / 2));
        low_bits &= low_bits.wrapping_sub(1);
        at
    })
}

/// The index of the first pair of a word of a page.
pub(crate) fn first_of(page: usize, word: usize) -> u64 {
    page as u64 * DOCUMENTS_PER_PAGE + (word * PER_WORD) as u64
}

/// All bits of the first `count` (1 to 32) pairs.
fn up_to(count: usize) -> u64 {
    u64::MAX >> (64 - 2 * count)
}

#[inline]
fn fill_words(words: &mut Words, from: usize, to: usize, pair: u64) {
    let pattern = pair * LOW;
    let (first, last) = (from / PER_WORD, (to - 1) / PER_WORD);
    let head = u64::MAX << (from % PER_WORD * 2);
    let tail = up_to((to - 1) % PER_WORD + 1);
    if first == last {
        blend(&mut words[first], head & tail, pattern);
        return;
    }
    blend(&mut words[first], head, pattern);
    words[first + 1..last].fill(pattern);
    blend(&mut words[last], tail, pattern);
}

#[inline]
fn blend(word: &mut u64, mask: u64, pattern: u64) {
    *word = *word & !mask | pattern & mask;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_fill(range: Range<u64>) {
        let mut pairs = Pairs::default();
        pairs.fill(0..3 * DOCUMENTS_PER_PAGE, 2);
        pairs.fill(range.clone(), 1);
        let wrong = (0..3 * DOCUMENTS_PER_PAGE).find(|at| {
            let expected = if range.contains(at) { 1 } else { 2 };
            pairs.get(*at) != expected
        });
        assert_eq!(wrong, None, "after filling {range:?}");
    }

    #[test]
    fn a_fill_sets_only_its_range() {
        let page = DOCUMENTS_PER_PAGE;
        for range in [0..0, 0..1, 31..32, 31..33, 5..29, 0..32, 32..64, 1..1001, 500..1500] {
            check_fill(range);
        }
        for range in [page - 1..page, page - 1..page + 1, page..page + 1, 7..2 * page + 9, 0..3 * page] {
            check_fill(range);
        }
    }

    #[test]
    fn counts_agree_with_the_single_states() {
        let mut pairs = Pairs::default();
        pairs.fill(0..40_000, State::Unknown as u64);
        pairs.fill(10..30_010, State::Acknowledged as u64);
        pairs.fill(100..200, State::Rejected as u64);
        pairs.fill(300..305, State::NotSent as u64);
        let count = |state| (0..50_000).filter(|at| pairs.state(*at) == state).count() as u64;
        let counts = pairs.counts();
        assert_eq!(counts.acknowledged, count(State::Acknowledged));
        assert_eq!(counts.rejected, count(State::Rejected));
        assert_eq!(counts.unknown, count(State::Unknown));
        assert_eq!(counts.sent(), 39_995);
    }

    #[test]
    fn doubt_changes_neither_known_outcomes_nor_later_documents() {
        for until in [0, 1, 31, 32, 33, 100, DOCUMENTS_PER_PAGE, DOCUMENTS_PER_PAGE + 5] {
            let mut pairs = Pairs::default();
            pairs.fill(3..40, State::Acknowledged as u64);
            pairs.put(50, State::Rejected as u64);
            let before = pairs.clone();
            pairs.doubt(until);
            for at in 0..2 * DOCUMENTS_PER_PAGE {
                let doubted = at < until && before.state(at) == State::NotSent;
                let expected = if doubted { State::Unknown } else { before.state(at) };
                assert_eq!(pairs.state(at), expected, "document {at}, reserved until {until}");
            }
        }
    }

    #[test]
    fn offsets_name_each_pair_once() {
        let word = lanes(0b11_00_01_11, 3);
        assert_eq!(offsets(word).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(offsets(lanes(u64::MAX, 3)).count(), 32);
    }

    #[test]
    fn a_hundred_million_documents_take_25_mb() {
        let mut pairs = Pairs::default();
        for start in (0..100_000_000).step_by(1000) {
            pairs.fill(start..start + 1000, State::Acknowledged as u64);
        }
        assert_eq!(pairs.counts().acknowledged, 100_000_000);
        assert!(pairs.memory_bytes() < 25_100_000, "{} bytes", pairs.memory_bytes());
    }
}
