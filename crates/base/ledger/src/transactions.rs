//! Keeps the transactions whose commit has an unknown outcome: the server has all of their writes, or none.

use std::collections::BTreeSet;

use crate::numbers::Slot;

/// The most transactions that are kept; further transactions are not checked.
pub const TRANSACTIONS_MAX: usize = 1 << 16;
/// The most spans of a transaction; a transaction with more is not checked.
pub const SPANS_MAX: usize = 250;

/// Consecutive documents of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first document.
    pub first: Slot,
    /// The number of documents.
    pub count: u64,
}

/// Transactions with an unknown outcome: the documents that each one inserts, replaces or deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    all: BTreeSet<Vec<Span>>,
    unchecked: u64,
}

impl Span {
    /// The documents of the span.
    pub fn slots(self) -> impl Iterator<Item = Slot> {
        let Slot { worker, local } = self.first;
        (local..local + self.count).map(move |local| Slot { worker, local })
    }
}

impl Transactions {
    /// Adds a transaction. Ignores a transaction of one document, which is always written as a whole. A transaction over
    /// the limits is only counted.
    pub fn add(&mut self, spans: Vec<Span>) {
        let documents: u64 = spans.iter().map(|span| span.count).sum();
        if documents <= 1 || self.all.contains(&spans) {
            return;
        }
        if spans.len() <= SPANS_MAX && self.all.len() < TRANSACTIONS_MAX {
            self.all.insert(spans);
        } else {
            self.add_unchecked(1);
        }
    }

    /// Adds transactions that are only counted.
    pub fn add_unchecked(&mut self, transactions: u64) {
        self.unchecked = self.unchecked.saturating_add(transactions);
    }

    /// The number of transactions over the limits: the audit cannot check them.
    pub const fn unchecked(&self) -> u64 {
        self.unchecked
    }

    /// Adds the transactions of another worker or shard. Both must number their documents by the same allocation.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|spans| self.add(spans.to_vec()));
        self.add_unchecked(other.unchecked);
    }

    /// The spans of each transaction.
    pub fn iter(&self) -> impl Iterator<Item = &[Span]> {
        self.all.iter().map(Vec::as_slice)
    }

    /// Whether no transaction has an unknown outcome.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.unchecked == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(local: u64, count: u64) -> Span {
        Span { first: Slot { worker: 1, local }, count }
    }

    #[test]
    fn only_transactions_of_several_documents_are_kept_once() {
        let mut mine = Transactions::default();
        mine.add(vec![span(3, 1)]);
        assert!(mine.is_empty());
        mine.add(vec![span(3, 1), span(9, 1)]);
        mine.add(vec![span(20, 2)]);
        mine.add((0..=SPANS_MAX as u64).map(|local| span(local, 1)).collect());
        let mut theirs = mine.clone();
        theirs.add(vec![span(30, 2)]);
        mine.merge(&theirs);
        assert_eq!(
            mine.iter().collect::<Vec<_>>(),
            [&[span(3, 1), span(9, 1)][..], &[span(20, 2)], &[span(30, 2)]]
        );
        assert_eq!(mine.unchecked(), 2, "the long one of each owner");
        assert_eq!(span(3, 2).slots().map(|slot| slot.local).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn transactions_beyond_the_limit_are_counted() {
        let mut all = Transactions::default();
        (0..TRANSACTIONS_MAX as u64 + 3).for_each(|number| all.add(vec![span(2 * number, 2)]));
        // A repetition of a kept transaction is not counted again.
        all.add(vec![span(0, 2)]);
        assert_eq!((all.iter().count(), all.unchecked()), (TRANSACTIONS_MAX, 3));
    }
}
