//! Encodes the transactions of unknown outcome in a saved ledger: for each the number of its spans, then two words a span. The
//! last record may contain no transactions: it then holds the number of transactions that were counted and not kept.

use super::list::{LOCAL_BITS, packed, unpacked};
use crate::numbers::{Allocation, Slot};
use crate::pairs::{PAGE_BYTES, Words};
use crate::transactions::{SPANS_MAX, Span, Transactions};

/// Words of one record.
const WORDS: usize = PAGE_BYTES / 8;
const _: () = assert!(2 * SPANS_MAX < WORDS, "every transaction fits one record");

/// The number and the words of the transactions of each record.
pub(super) fn words(transactions: &Transactions) -> Vec<(u32, Box<Words>)> {
    let mut records: Vec<(u32, Box<Words>)> = Vec::new();
    let mut used = WORDS;
    for spans in transactions.iter() {
        let needed = 1 + 2 * spans.len();
        if used + needed > WORDS {
            records.push((0, Box::new([0; WORDS])));
            used = 0;
        }
        if let Some((count, words)) = records.last_mut() {
            put(&mut words[used..used + needed], spans);
            *count += 1;
        }
        used += needed;
    }
    if transactions.unchecked() > 0 {
        let mut words = Box::new([0; WORDS]);
        words[0] = transactions.unchecked();
        records.push((0, words));
    }
    records
}

fn put(words: &mut [u64], spans: &[Span]) {
    words[0] = spans.len() as u64;
    for (pair, span) in words[1..].chunks_exact_mut(2).zip(spans) {
        pair.copy_from_slice(&[packed(span.first), span.count]);
    }
}

/// The transactions of a record; `None` if one of them names documents outside the allocation.
pub(super) fn read(words: &Words, count: u32, allocation: &Allocation) -> Option<Transactions> {
    let (mut read, mut rest) = (Transactions::default(), &words[..]);
    for _ in 0..count {
        let (spans, after) = rest.split_first()?;
        let pairs = after.get(..usize::try_from(*spans).ok()?.checked_mul(2)?)?;
        read.add(pairs.chunks_exact(2).map(|pair| span(pair, allocation)).collect::<Option<_>>()?);
        rest = &after[pairs.len()..];
    }
    if count == 0 {
        read.add_unchecked(words[0]);
    }
    Some(read)
}

fn span(pair: &[u64], allocation: &Allocation) -> Option<Span> {
    let (first, count) = (unpacked(pair[0]), pair[1]);
    let last = Slot { local: first.local.checked_add(count.checked_sub(1)?)?, ..first };
    let is_allocated =
        count < 1 << LOCAL_BITS && allocation.global(first).and(allocation.global(last)).is_some();
    is_allocated.then_some(Span { first, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(worker: u64, local: u64, count: u64) -> Span {
        Span { first: Slot { worker, local }, count }
    }

    #[test]
    fn transactions_are_read_as_they_were_written_over_several_records() {
        let allocation = Allocation::new(1000, 3, None).unwrap();
        let mut transactions = Transactions::default();
        for number in 0..300 {
            transactions.add(vec![span(number % 3, number, 2), span(2, number * 7, 1)]);
        }
        transactions.add((0..SPANS_MAX as u64).map(|local| span(1, 9000 + local, 1)).collect());
        let mut read = Transactions::default();
        let records = words(&transactions);
        assert!(records.len() > 3);
        records
            .iter()
            .for_each(|(count, words)| read.merge(&super::read(words, *count, &allocation).unwrap()));
        assert_eq!(read, transactions);
    }

    #[test]
    fn impossible_words_are_no_transactions() {
        let allocation = Allocation::new(1000, 3, None).unwrap();
        for start in [[u64::MAX, 0, 0], [1, u64::MAX, 2], [1, 0, 0], [1, 0, u64::MAX], [400, 0, 2]] {
            let mut words = Box::new([0; WORDS]);
            words[..3].copy_from_slice(&start);
            assert_eq!(read(&words, 1, &allocation), None, "{start:?}");
        }
    }
}
