//! Which documents a worker sends: their numbers, dealt so that no two workers send the same.
//!
//! Each operation numbers its own documents from 0, and goes on where it was in the next phase. Worker `i` of `n` sends every
//! `n`-th request's worth of them, so that all workers together leave no gaps but at the end.

use plimsoll_load::arrivals::Share;

/// The documents of one request: the number of the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealt {
    pub first: u64,
    pub count: u64,
}

/// What a worker has dealt.
#[derive(Debug)]
pub(crate) struct Books {
    share: Share,
    /// Documents that may still be sent in this phase, if they are limited.
    left: Option<u64>,
    deals: Vec<Deal>,
}

/// The documents of one operation.
#[derive(Debug)]
struct Deal {
    /// Documents of one request.
    block: u64,
    /// The next request's place among those of this worker.
    next: u64,
    /// What was dealt and not sent.
    returned: Vec<Dealt>,
}

impl Books {
    /// For operations with so many documents a request.
    pub(crate) fn new(share: Share, blocks: impl Iterator<Item = u32>) -> Self {
        let deal = |block| Deal { block: u64::from(block), next: 0, returned: Vec::new() };
        Self { share, left: None, deals: blocks.map(deal).collect() }
    }

    /// A phase begins.
    pub(crate) fn limit(&mut self, documents: Option<u64>) {
        self.left = documents;
    }

    /// The documents of the next request; nothing when none are left. The last request of a phase may have fewer.
    pub(crate) fn take(&mut self, operation: usize) -> Option<Dealt> {
        let left = self.left.unwrap_or(u64::MAX);
        if left == 0 {
            return None;
        }
        let deal = &mut self.deals[operation];
        let mut dealt = deal.returned.pop().unwrap_or_else(|| deal.deal(self.share));
        if dealt.count > left {
            deal.returned.push(Dealt { first: dealt.first + left, count: dealt.count - left });
            dealt.count = left;
        }
        self.left = self.left.map(|left| left - dealt.count);
        Some(dealt)
    }

    /// What was dealt will not be sent now.
    pub(crate) fn give_back(&mut self, operation: usize, dealt: Dealt) {
        self.left = self.left.map(|left| left + dealt.count);
        self.deals[operation].returned.push(dealt);
    }
}

impl Deal {
    fn deal(&mut self, share: Share) -> Dealt {
        let place = self.next * share.of + share.index;
        self.next += 1;
        Dealt { first: place * self.block, count: self.block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(books: &mut Books, operation: usize, requests: usize) -> Vec<u64> {
        let dealt = (0..requests).map_while(|_| books.take(operation));
        dealt.flat_map(|dealt| dealt.first..dealt.first + dealt.count).collect()
    }

    #[test]
    fn all_workers_together_leave_no_gaps_and_send_nothing_twice() {
        let mut all = Vec::new();
        for index in 0..3 {
            let mut books = Books::new(Share { index, of: 3 }, [10, 1].into_iter());
            all.extend(numbers(&mut books, 0, 4));
            assert_eq!(numbers(&mut books, 1, 2), [index, index + 3]);
        }
        all.sort_unstable();
        assert_eq!(all, (0..120).collect::<Vec<_>>());
    }

    #[test]
    fn a_phase_sends_exactly_its_documents_and_the_next_goes_on() {
        let mut books = Books::new(Share::WHOLE, [10].into_iter());
        books.limit(Some(25));
        assert_eq!(numbers(&mut books, 0, 99), (0..25).collect::<Vec<_>>());
        books.limit(Some(10));
        assert_eq!(numbers(&mut books, 0, 99), (25..35).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_given_back_is_dealt_again() {
        let mut books = Books::new(Share::WHOLE, [10].into_iter());
        books.limit(Some(20));
        let first = books.take(0).unwrap();
        books.give_back(0, first);
        let mut all = numbers(&mut books, 0, 99);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }
}
