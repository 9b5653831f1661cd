//! Cuts batches, and finds the part that a store refuses.

use std::future::Future;
use std::sync::Arc;

use crate::port::{StoreError, Stored};

/// Does work on a batch. If the store refuses the batch, each part is done alone, so that one refused item
/// does not block the others. A refused batch may have taken effect in part, so `work` must be repeatable.
pub async fn each<T: Clone, R, F: Future<Output = Stored<Vec<R>>>>(
    items: Arc<[T]>,
    work: impl Fn(Arc<[T]>) -> F,
) -> Vec<Stored<R>> {
    match work(items.clone()).await {
        Ok(results) => results.into_iter().map(Ok).collect(),
        Err(StoreError::Refused(_)) if items.len() > 1 => {
            let mut results = Vec::with_capacity(items.len());
            for item in items.iter() {
                results.push(work(Arc::from([item.clone()])).await.and_then(only));
            }
            results
        }
        Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
    }
}

fn only<R>(mut results: Vec<R>) -> Stored<R> {
    results
        .pop()
        .ok_or_else(|| StoreError::Unavailable("the store gave no result: repeat the request".into()))
}

/// Cuts items into groups of at most `items_max` items and `bytes_max` bytes. A larger item is a group alone.
pub fn cut<T>(items: &[T], bytes: impl Fn(&T) -> usize, items_max: usize, bytes_max: usize) -> Vec<&[T]> {
    let (mut groups, mut from, mut sum) = (Vec::new(), 0, 0);
    for (at, item) in items.iter().enumerate() {
        let size = bytes(item);
        if at > from && (at - from == items_max || sum + size > bytes_max) {
            groups.push(&items[from..at]);
            (from, sum) = (at, 0);
        }
        sum += size;
    }
    if from < items.len() {
        groups.push(&items[from..]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_refused_batch_is_done_singly_and_only_the_culprit_fails() {
        let work = |items: Arc<[u32]>| async move {
            let refused = || StoreError::Refused("13".into());
            if items.contains(&13) { Err(refused()) } else { Ok(items.to_vec()) }
        };
        let results = each(Arc::from([1, 13, 3]), work).now_or_never().unwrap();
        assert_eq!(results, [Ok(1), Err(StoreError::Refused("13".into())), Ok(3)]);
    }

    #[test]
    fn an_unavailable_store_is_asked_once() {
        let down = |_: Arc<[u32]>| async { Err::<Vec<u32>, _>(StoreError::Unavailable("down".into())) };
        let results = each(Arc::from([1, 2]), down).now_or_never().unwrap();
        assert!(results.iter().all(|result| matches!(result, Err(StoreError::Unavailable(_)))));
        assert_eq!(results.len(), 2);
    }

    #[test]
    fn groups_respect_both_limits_and_keep_every_item() {
        let groups = cut(&[5, 5, 9, 1, 1, 1, 1, 30, 2], |size| *size, 3, 10);
        assert_eq!(groups, [&[5, 5][..], &[9, 1], &[1, 1, 1], &[30], &[2]]);
        assert!(cut(&[], |size: &usize| *size, 3, 10).is_empty());
    }
}
