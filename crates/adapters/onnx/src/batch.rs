//! Sorts texts by length into batches that need no padding.
//!
//! A batch is a rectangle, [texts, tokens]: shorter texts would be padded, and the padding would cost
//! computing time. So only texts with the same number of tokens share a batch.

use std::ops::Range;

/// Texts of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The number of tokens of each text.
    pub(crate) tokens: usize,
    /// The positions of the texts in the order.
    pub(crate) texts: Range<usize>,
}

/// Sorts the texts by length; texts of one length keep their order. Cuts that order into batches of one
/// length, with at most `tokens_max` tokens but at least one text. Texts without tokens are in no batch.
pub(crate) fn plan(lengths: &[usize], tokens_max: usize) -> (Vec<usize>, Vec<Batch>) {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&text| lengths[text]);
    let mut batches = Vec::new();
    let mut start = order.partition_point(|&text| lengths[text] == 0);
    while let Some(&first) = order.get(start) {
        let tokens = lengths[first];
        let same = order[start..].iter().take_while(|&&text| lengths[text] == tokens).count();
        let end = start + same.min((tokens_max / tokens).max(1));
        batches.push(Batch { tokens, texts: start..end });
        start = end;
    }
    (order, batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(lengths: &[usize], tokens_max: usize, expected: &[(usize, &[usize])]) {
        let (order, batches) = plan(lengths, tokens_max);
        let found: Vec<_> = batches.iter().map(|batch| (batch.tokens, &order[batch.texts.clone()])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn texts_of_one_length_share_a_batch_up_to_the_limit() {
        check(&[3, 5, 3, 3], 6, &[(3, &[0, 2]), (3, &[3]), (5, &[1])]);
        check(&[], 6, &[]);
    }

    #[test]
    fn a_text_longer_than_the_limit_goes_alone() {
        check(&[9, 9], 6, &[(9, &[0]), (9, &[1])]);
    }

    #[test]
    fn a_text_without_tokens_is_in_no_batch() {
        check(&[0, 2, 0], 6, &[(2, &[1])]);
    }

    proptest! {
        #[test]
        fn every_text_with_tokens_is_in_one_batch_of_its_length(
            lengths in proptest::collection::vec(0_usize..20, 0..100),
            tokens_max in 1_usize..50,
        ) {
            let (order, batches) = plan(&lengths, tokens_max);
            let mut seen = vec![0; lengths.len()];
            for batch in &batches {
                prop_assert!(!batch.texts.is_empty());
                prop_assert!(batch.texts.len() == 1 || batch.texts.len() * batch.tokens <= tokens_max);
                for &text in &order[batch.texts.clone()] {
                    prop_assert_eq!(lengths[text], batch.tokens);
                    seen[text] += 1;
                }
            }
            for (length, seen) in lengths.iter().zip(seen) {
                prop_assert_eq!(seen, usize::from(*length > 0));
            }
        }
    }
}
