//! Assigns document numbers to requests, so that no two workers send the same document.
//!
//! Each operation numbers its documents from 0 and continues in the next phase. Worker `i` of `n` sends every `n`-th block,
//! so that all workers together leave no gaps except at the end.

use std::ops::Range;

use plimsoll_load::arrivals::Share;

/// The documents of one request: the first number and the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub first: u64,
    pub count: u64,
}

/// The document numbers of a worker.
#[derive(Debug)]
pub(crate) struct DocumentNumbers {
    share: Share,
    /// The remaining documents of this phase, if they are limited.
    left: Option<u64>,
    operations: Vec<Sequence>,
}

/// The document numbers of one operation.
#[derive(Debug)]
struct Sequence {
    /// Documents of one request.
    block: u64,
    /// The index of this worker's next request.
    next: u64,
    /// Blocks that were taken but not sent.
    returned: Vec<Block>,
}

impl DocumentNumbers {
    /// Creates the numbers; `blocks` gives the documents per request of each operation.
    pub(crate) fn new(share: Share, blocks: impl Iterator<Item = u32>) -> Self {
        let sequence = |block| Sequence { block: u64::from(block), next: 0, returned: Vec::new() };
        Self { share, left: None, operations: blocks.map(sequence).collect() }
    }

    /// Starts a phase, perhaps with a limited number of documents.
    pub(crate) fn limit(&mut self, documents: Option<u64>) {
        self.left = documents;
    }

    /// The documents of the next request; `None` when none remain. The last request of a phase may have fewer.
    pub(crate) fn take(&mut self, operation: usize) -> Option<Block> {
        let left = self.left.unwrap_or(u64::MAX);
        if left == 0 {
            return None;
        }
        let sequence = &mut self.operations[operation];
        let mut block = sequence.returned.pop().unwrap_or_else(|| sequence.next_block(self.share));
        if block.count > left {
            sequence.returned.push(Block { first: block.first + left, count: block.count - left });
            block.count = left;
        }
        self.left = self.left.map(|left| left - block.count);
        Some(block)
    }

    /// The layout of an operation's numbers.
    pub(crate) fn layout(&self, operation: usize) -> Layout {
        let sequence = &self.operations[operation];
        let block = sequence.block.max(1);
        Layout { share: self.share, block, taken: sequence.next * block }
    }

    /// Returns a block that will not be sent now.
    pub(crate) fn give_back(&mut self, operation: usize, block: Block) {
        self.left = self.left.map(|left| left + block.count);
        self.operations[operation].returned.push(block);
    }
}

/// The position of a worker's document numbers among the numbers of all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    share: Share,
    block: u64,
    /// The number of local indexes that were taken, from 0 on.
    pub(crate) taken: u64,
}

impl Layout {
    /// The local indexes of documents of one block: the worker's numbers without the gaps.
    pub(crate) const fn local(&self, Block { first, count }: Block) -> Range<u64> {
        let (block, within) = (first / self.block, first % self.block);
        let start = block / self.share.of * self.block + within;
        start..start + count
    }

    /// The number of the document with a local index.
    pub(crate) const fn number(&self, local: u64) -> u64 {
        let (block, within) = (local / self.block, local % self.block);
        (block * self.share.of + self.share.index) * self.block + within
    }
}

impl Sequence {
    fn next_block(&mut self, share: Share) -> Block {
        let index = self.next * share.of + share.index;
        self.next += 1;
        Block { first: index * self.block, count: self.block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(source: &mut DocumentNumbers, operation: usize, requests: usize) -> Vec<u64> {
        let dealt = (0..requests).map_while(|_| source.take(operation));
        dealt.flat_map(|dealt| dealt.first..dealt.first + dealt.count).collect()
    }

    #[test]
    fn all_workers_together_leave_no_gaps_and_send_nothing_twice() {
        let mut all = Vec::new();
        for index in 0..3 {
            let mut source = DocumentNumbers::new(Share { index, of: 3 }, [10, 1].into_iter());
            all.extend(numbers(&mut source, 0, 4));
            assert_eq!(numbers(&mut source, 1, 2), [index, index + 3]);
        }
        all.sort_unstable();
        assert_eq!(all, (0..120).collect::<Vec<_>>());
    }

    #[test]
    fn a_phase_sends_exactly_its_documents_and_the_next_continues() {
        let mut source = DocumentNumbers::new(Share::WHOLE, [10].into_iter());
        source.limit(Some(25));
        assert_eq!(numbers(&mut source, 0, 99), (0..25).collect::<Vec<_>>());
        source.limit(Some(10));
        assert_eq!(numbers(&mut source, 0, 99), (25..35).collect::<Vec<_>>());
    }

    #[test]
    fn local_indexes_have_no_gaps_and_lead_back_to_the_numbers() {
        for (index, of, block) in [(0, 1, 1), (2, 3, 10), (1, 4, 7)] {
            let mut source = DocumentNumbers::new(Share { index, of }, [block].into_iter());
            source.limit(Some(25));
            let blocks: Vec<_> = std::iter::from_fn(|| source.take(0)).collect();
            let layout = source.layout(0);
            let mut next = 0;
            for block in blocks {
                let local = layout.local(block);
                assert_eq!(local.start, next, "{index} {of} {block:?}");
                next = local.end;
                let numbers: Vec<_> = local.map(|local| layout.number(local)).collect();
                assert_eq!(numbers, (block.first..block.first + block.count).collect::<Vec<_>>());
            }
            assert!(next == 25 && layout.taken >= 25, "{layout:?}");
        }
    }

    #[test]
    fn a_returned_block_is_taken_again() {
        let mut source = DocumentNumbers::new(Share::WHOLE, [10].into_iter());
        source.limit(Some(20));
        let first = source.take(0).unwrap();
        source.give_back(0, first);
        let mut all = numbers(&mut source, 0, 99);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
}
