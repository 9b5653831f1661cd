//! Which documents a worker sends: their numbers, dealt so that no two workers send the same.
//!
//! Each operation numbers its own documents from 0, and goes on where it was in the next phase. Worker `i` of `n` sends every
//! `n`-th request's worth of them, so that all workers together leave no gaps but at the end.

use plimsoll_load::arrivals::Share;

/// The documents of one request: the number of the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub first: u64,
    pub count: u64,
}

/// What a worker has dealt.
#[derive(Debug)]
pub(crate) struct DocumentNumbers {
    share: Share,
    /// Documents that may still be sent in this phase, if they are limited.
    left: Option<u64>,
    deals: Vec<Dealer>,
}

/// The documents of one operation.
#[derive(Debug)]
struct Dealer {
    /// Documents of one request.
    block: u64,
    /// The next request's place among those of this worker.
    next: u64,
    /// What was dealt and not sent.
    returned: Vec<Block>,
}

impl DocumentNumbers {
    /// For operations with so many documents a request.
    pub(crate) fn new(share: Share, blocks: impl Iterator<Item = u32>) -> Self {
        let deal = |block| Dealer { block: u64::from(block), next: 0, returned: Vec::new() };
        Self { share, left: None, deals: blocks.map(deal).collect() }
    }

    /// A phase begins.
    pub(crate) fn limit(&mut self, documents: Option<u64>) {
        self.left = documents;
    }

    /// The documents of the next request; nothing when none are left. The last request of a phase may have fewer.
    pub(crate) fn take(&mut self, operation: usize) -> Option<Block> {
        let left = self.left.unwrap_or(u64::MAX);
        if left == 0 {
            return None;
        }
        let deal = &mut self.deals[operation];
        let mut dealt = deal.returned.pop().unwrap_or_else(|| deal.deal(self.share));
        if dealt.count > left {
            deal.returned.push(Block { first: dealt.first + left, count: dealt.count - left });
            dealt.count = left;
        }
        self.left = self.left.map(|left| left - dealt.count);
        Some(dealt)
    }

    /// What was dealt will not be sent now.
    pub(crate) fn give_back(&mut self, operation: usize, dealt: Block) {
        self.left = self.left.map(|left| left + dealt.count);
        self.deals[operation].returned.push(dealt);
    }
}

impl Dealer {
    fn deal(&mut self, share: Share) -> Block {
        let place = self.next * share.of + share.index;
        self.next += 1;
        Block { first: place * self.block, count: self.block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers_left: &mut DocumentNumbers, operation: usize, requests: usize) -> Vec<u64> {
        let dealt = (0..requests).map_while(|_| numbers_left.take(operation));
        dealt.flat_map(|dealt| dealt.first..dealt.first + dealt.count).collect()
    }

    #[test]
    fn all_workers_together_leave_no_gaps_and_send_nothing_twice() {
        let mut all = Vec::new();
        for index in 0..3 {
            let mut numbers_left = DocumentNumbers::new(Share { index, of: 3 }, [10, 1].into_iter());
            all.extend(numbers(&mut numbers_left, 0, 4));
            assert_eq!(numbers(&mut numbers_left, 1, 2), [index, index + 3]);
        }
        all.sort_unstable();
        assert_eq!(all, (0..120).collect::<Vec<_>>());
    }

    #[test]
    fn a_phase_sends_exactly_its_documents_and_the_next_goes_on() {
        let mut numbers_left = DocumentNumbers::new(Share::WHOLE, [10].into_iter());
        numbers_left.limit(Some(25));
        assert_eq!(numbers(&mut numbers_left, 0, 99), (0..25).collect::<Vec<_>>());
        numbers_left.limit(Some(10));
        assert_eq!(numbers(&mut numbers_left, 0, 99), (25..35).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_given_back_is_dealt_again() {
        let mut numbers_left = DocumentNumbers::new(Share::WHOLE, [10].into_iter());
        numbers_left.limit(Some(20));
        let first = numbers_left.take(0).unwrap();
        numbers_left.give_back(0, first);
        let mut all = numbers(&mut numbers_left, 0, 99);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
}
