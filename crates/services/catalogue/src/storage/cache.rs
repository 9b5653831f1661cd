//! Keeps slow answers for a limited time, so that the counts and facets of a large catalogue are seldom computed. The answers of a small
//! catalogue are always exact.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::Document;

/// The age up to which an answer counts as fresh, in milliseconds.
pub(super) const FRESH_MS: i64 = 30_000;
/// The computing time from which an answer is kept, in milliseconds.
pub(super) const SLOW_MS: i64 = 50;
/// The maximum number of answers in memory.
const ANSWERS_MAX: usize = 1_000;
/// The longest key in memory, in bytes; an answer to a longer query is not kept.
const KEY_BYTES_MAX: usize = 4_096;

/// A clock: milliseconds since 1970.
pub type Clock<'a> = &'a (dyn Fn() -> i64 + Send + Sync);

/// Answers by query.
#[derive(Debug)]
pub(super) struct Cache<V>(Mutex<HashMap<Vec<u8>, Kept<V>>>);

#[derive(Debug)]
struct Kept<V> {
    value: V,
    at_ms: i64,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> Cache<V> {
    /// The fresh answer to a query.
    pub(super) fn get(&self, query: &Document, now_ms: i64) -> Option<V> {
        let key = key(query)?;
        self.lock().get(&key).filter(|kept| is_fresh(kept.at_ms, now_ms)).map(|kept| kept.value.clone())
    }

    /// Keeps a slow answer, unless the memory is full of fresh answers. The age of an answer counts from the start of its query.
    pub(super) fn put(&self, query: &Document, value: V, begun_ms: i64, now_ms: i64) {
        let Some(key) = key(query).filter(|_| now_ms - begun_ms >= SLOW_MS) else { return };
        let mut answers = self.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.retain(|_, kept| is_fresh(kept.at_ms, now_ms));
        }
        if answers.len() < ANSWERS_MAX || answers.contains_key(&key) {
            answers.insert(key, Kept { value, at_ms: begun_ms });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Kept<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(at_ms: i64, now_ms: i64) -> bool {
    (0..FRESH_MS).contains(&(now_ms - at_ms))
}

fn key(query: &Document) -> Option<Vec<u8>> {
    query.to_vec().ok().filter(|key| key.len() <= KEY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn an_answer_is_kept_as_long_as_it_is_fresh() {
        let cache = Cache::default();
        cache.put(&doc! {"a": 1}, 5, 1_000, 1_000 + SLOW_MS - 1);
        assert_eq!(cache.get(&doc! {"a": 1}, 1_000), None, "it was quick");
        cache.put(&doc! {"a": 1}, 5, 1_000, 1_000 + SLOW_MS);
        assert_eq!(cache.get(&doc! {"a": 1}, 1_000 + FRESH_MS - 1), Some(5));
        assert_eq!(cache.get(&doc! {"a": 1}, 1_000 + FRESH_MS), None);
        assert_eq!(
            cache.get(&doc! {"a": 1}, 999),
            None,
            "a clock that goes back makes no answer fresh for long"
        );
        assert_eq!(cache.get(&doc! {"a": 2}, 1_000), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let cache = Cache::default();
        for n in 0..3_000 {
            cache.put(&doc! {"a": n}, n, 0, SLOW_MS);
        }
        assert_eq!(cache.lock().len(), ANSWERS_MAX);
        cache.put(&doc! {"a": "x".repeat(KEY_BYTES_MAX)}, 1, FRESH_MS, FRESH_MS + SLOW_MS);
        cache.put(&doc! {"b": 1}, 1, FRESH_MS, FRESH_MS + SLOW_MS);
        assert_eq!(cache.lock().len(), 1, "stale answers leave first");
    }
}
