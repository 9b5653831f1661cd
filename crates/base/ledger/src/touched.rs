//! Marks documents that an update, replace or delete may have touched. The audit claims nothing about them.

use std::ops::Range;

use crate::numbers::{Allocation, Slot};
use crate::pairs::{Pairs, Words};

/// Documents that an operation other than their insert may have changed. Takes memory only once a document is marked (25 MB for
/// 100 million).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Touched {
    /// No document was touched.
    #[default]
    None,
    /// These documents may have been touched.
    Some(Marks),
    /// Any document may have been touched: operations chose documents without their numbers.
    All,
}

/// The documents that were marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Marks(Vec<Pairs>);

const MARK: u64 = 1;

impl Touched {
    /// Marks a range of numbers; ignores numbers outside the allocation.
    pub fn mark(&mut self, allocation: &Allocation, numbers: Range<u64>) {
        for slot in numbers.map_while(|number| allocation.locate(number)) {
            self.put(allocation, slot);
        }
    }

    /// Marks the document at a slot of the allocation.
    pub(crate) fn put(&mut self, allocation: &Allocation, slot: Slot) {
        self.begin(allocation);
        if let Touched::Some(Marks(workers)) = self {
            workers[slot.worker as usize].put(slot.local, MARK);
        }
    }

    /// Allocates space for marks.
    fn begin(&mut self, allocation: &Allocation) {
        if let Touched::None = self {
            *self = Touched::Some(Marks(vec![Pairs::default(); allocation.workers() as usize]));
        }
    }

    /// Adds the documents that another worker or shard of the same allocation touched.
    pub fn merge(&mut self, other: &Touched) {
        match (&mut *self, other) {
            (Touched::All, _) | (_, Touched::None) => {}
            (Touched::Some(Marks(mine)), Touched::Some(Marks(theirs))) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| union(mine, theirs));
            }
            (_, other) => *self = other.clone(),
        }
    }

    /// Whether the document at a slot of the allocation may have been touched.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        match self {
            Touched::None => false,
            Touched::Some(Marks(workers)) => workers[slot.worker as usize].get(slot.local) != 0,
            Touched::All => true,
        }
    }

    /// The pages with marks: worker, index and words.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, usize, &Words)> {
        let workers: &[Pairs] = if let Touched::Some(Marks(workers)) = self { workers } else { &[] };
        workers
            .iter()
            .enumerate()
            .flat_map(|(worker, pairs)| pairs.pages().map(move |(index, words)| (worker, index, words)))
    }

    /// Sets a whole page of marks.
    pub(crate) fn set_page(
        &mut self,
        allocation: &Allocation,
        worker: usize,
        index: usize,
        words: Box<Words>,
    ) {
        self.begin(allocation);
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

/// The union of both bit sets.
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

    fn marked(allocation: &Allocation, numbers: Range<u64>) -> Touched {
        let mut touched = Touched::None;
        touched.mark(allocation, numbers);
        touched
    }

    fn numbers(touched: &Touched, allocation: &Allocation) -> Vec<u64> {
        (0..allocation.end()).filter(|n| touched.contains(allocation.locate(*n).unwrap())).collect()
    }

    #[test]
    fn only_allocated_numbers_are_marked() {
        let allocation = Allocation::new(3, 2, Some(20)).unwrap();
        assert_eq!(numbers(&marked(&allocation, 4..8), &allocation), [4, 5, 6, 7]);
        assert_eq!(numbers(&marked(&allocation, 18..40), &allocation), [18, 19]);
    }

    #[test]
    fn merge_is_the_union() {
        let allocation = Allocation::new(3, 2, Some(9)).unwrap();
        let cases = [
            (Touched::None, Touched::None, vec![]),
            (Touched::None, marked(&allocation, 2..4), vec![2, 3]),
            (marked(&allocation, 2..4), Touched::None, vec![2, 3]),
            (marked(&allocation, 2..4), marked(&allocation, 3..7), vec![2, 3, 4, 5, 6]),
            (marked(&allocation, 2..4), Touched::All, (0..9).collect()),
            (Touched::All, marked(&allocation, 2..4), (0..9).collect()),
        ];
        for (mut left, right, expected) in cases {
            left.merge(&right);
            assert_eq!(numbers(&left, &allocation), expected);
        }
    }
}
