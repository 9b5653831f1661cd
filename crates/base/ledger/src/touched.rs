//! Marks documents that an update, replace or delete may have touched. The audit claims nothing about them.

use std::ops::Range;

use crate::numbers::{Deal, Place};
use crate::pairs::{Pairs, Words};

/// Documents that something other than their insert may have changed. It takes memory only once a document
/// is marked (25 MB for 100 million).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Touched {
    /// Nothing was touched.
    #[default]
    None,
    /// These documents may have been touched.
    Some(Marks),
    /// Any document may have been touched: operations chose theirs by other means than the number.
    All,
}

/// The documents that were marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Marks(Vec<Pairs>);

const MARK: u64 = 1;

impl Touched {
    /// Marks a range of numbers; numbers outside the deal are left out.
    pub fn mark(&mut self, deal: &Deal, numbers: Range<u64>) {
        for place in numbers.map_while(|number| deal.locate(number)) {
            self.put(deal, place);
        }
    }

    /// Marks the document at a place of the deal.
    pub(crate) fn put(&mut self, deal: &Deal, place: Place) {
        self.begin(deal);
        if let Touched::Some(Marks(workers)) = self {
            workers[place.worker as usize].put(place.local, MARK);
        }
    }

    /// Makes room for marks.
    fn begin(&mut self, deal: &Deal) {
        if let Touched::None = self {
            *self = Touched::Some(Marks(vec![Pairs::default(); deal.workers() as usize]));
        }
    }

    /// Adds what another worker or shard of the same deal touched.
    pub fn merge(&mut self, other: &Touched) {
        match (&mut *self, other) {
            (Touched::All, _) | (_, Touched::None) => {}
            (Touched::Some(Marks(mine)), Touched::Some(Marks(theirs))) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| union(mine, theirs));
            }
            (_, other) => *self = other.clone(),
        }
    }

    /// Whether the document at a place of the deal may have been touched.
    #[inline]
    pub fn contains(&self, place: Place) -> bool {
        match self {
            Touched::None => false,
            Touched::Some(Marks(workers)) => workers[place.worker as usize].get(place.local) != 0,
            Touched::All => true,
        }
    }

    /// The pages that hold marks: worker, index and words.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, usize, &Words)> {
        let workers: &[Pairs] = if let Touched::Some(Marks(workers)) = self { workers } else { &[] };
        workers
            .iter()
            .enumerate()
            .flat_map(|(worker, pairs)| pairs.pages().map(move |(index, words)| (worker, index, words)))
    }

    /// Puts a whole page of marks in place.
    pub(crate) fn set_page(&mut self, deal: &Deal, worker: usize, index: usize, words: Box<Words>) {
        self.begin(deal);
        if let Touched::Some(Marks(workers)) = self {
            workers[worker].set_page(index, words);
        }
    }

    /// The marks of a page of a worker.
    pub(crate) fn page(&self, worker: usize, page: usize) -> &Words {
        static NONE: Words = [0; size_of::<Words>() / 8];
        static ALL: Words = [u64::MAX; size_of::<Words>() / 8];
        match self {
            Touched::None => &NONE,
            Touched::Some(Marks(workers)) => workers[worker].page(page),
            Touched::All => &ALL,
        }
    }
}

/// Every bit that either has.
pub(crate) fn union(mine: &mut Pairs, theirs: &Pairs) {
    for (index, words) in theirs.pages() {
        let mut joined = Box::new(*mine.page(index));
        joined.iter_mut().zip(words).for_each(|(mine, theirs)| *mine |= theirs);
        mine.set_page(index, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(deal: &Deal, numbers: Range<u64>) -> Touched {
        let mut touched = Touched::None;
        touched.mark(deal, numbers);
        touched
    }

    fn numbers(touched: &Touched, deal: &Deal) -> Vec<u64> {
        (0..deal.end()).filter(|n| touched.contains(deal.locate(*n).unwrap())).collect()
    }

    #[test]
    fn marks_are_numbers_of_the_deal() {
        let deal = Deal::new(3, 2, Some(20)).unwrap();
        assert_eq!(numbers(&marked(&deal, 4..8), &deal), [4, 5, 6, 7]);
        assert_eq!(numbers(&marked(&deal, 18..40), &deal), [18, 19]);
    }

    #[test]
    fn merge_is_the_union() {
        let deal = Deal::new(3, 2, Some(9)).unwrap();
        let cases = [
            (Touched::None, Touched::None, vec![]),
            (Touched::None, marked(&deal, 2..4), vec![2, 3]),
            (marked(&deal, 2..4), Touched::None, vec![2, 3]),
            (marked(&deal, 2..4), marked(&deal, 3..7), vec![2, 3, 4, 5, 6]),
            (marked(&deal, 2..4), Touched::All, (0..9).collect()),
            (Touched::All, marked(&deal, 2..4), (0..9).collect()),
        ];
        for (mut left, right, expected) in cases {
            left.merge(&right);
            assert_eq!(numbers(&left, &deal), expected);
        }
    }
}
