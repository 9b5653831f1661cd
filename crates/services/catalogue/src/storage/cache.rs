//! Keeps slow answers for a limited time, so that the counts and facets of a large catalogue are seldom computed. The answers of a small
//! catalogue are always exact.
//!
//! One request computes an answer. The others take the answer before it, if that is not too old, or wait. A query that takes too long is not
//! tried again for some time. Slow queries together use a part of the connections, so that others find one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::Document;
use tokio::sync::Semaphore;

use super::Error;
use super::error::is_too_slow;
use crate::Refusal;

/// The age up to which an answer counts as fresh, in milliseconds.
pub(super) const FRESH_MS: i64 = 30_000;
/// The age up to which an answer serves while it is computed again, in milliseconds.
const STALE_MS: i64 = 60_000;
/// The computing time from which an answer is kept, in milliseconds.
pub(super) const SLOW_MS: i64 = 50;
/// The maximum number of answers in memory, and of their bytes.
const ANSWERS_MAX: usize = 1_000;
const ANSWERS_BYTES_MAX: usize = 32 << 20;
/// The longest key in memory, in bytes; an answer to a longer query is not kept.
const KEY_BYTES_MAX: usize = 4_096;
/// The queries at once. The pool of connections is larger.
const QUERIES_MAX: usize = 16;

/// A clock: milliseconds since 1970.
pub type Clock<'a> = &'a (dyn Fn() -> i64 + Send + Sync);

/// An answer and its bytes in memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sized<V> {
    pub(super) value: V,
    pub(super) bytes: usize,
}

/// A query under way, locked by the request that asks it: whether it has an answer.
type Flight = tokio::sync::Mutex<bool>;

/// Answers by query.
#[derive(Debug)]
pub(super) struct Cache<V> {
    kept: Mutex<HashMap<Vec<u8>, Kept<V>>>,
    flights: Mutex<HashMap<Vec<u8>, Arc<Flight>>>,
    queries: Semaphore,
}

#[derive(Debug)]
struct Kept<V> {
    /// `None`: the query takes too long.
    answer: Option<Sized<V>>,
    at_ms: i64,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self { kept: Mutex::default(), flights: Mutex::default(), queries: Semaphore::new(QUERIES_MAX) }
    }
}

impl<V: Clone> Cache<V> {
    /// The answer to a query: a fresh one, a stale one while another request computes it again, or that of `work`.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) async fn answer(
        &self,
        query: &Document,
        clock: Clock<'_>,
        work: impl Future<Output = Result<Sized<V>, Error>>,
    ) -> Result<Sized<V>, Error> {
        let Some(key) = key(query) else { return self.limited(work).await };
        let mut begun_ms = clock();
        if let Some(kept) = self.fresh(&key, begun_ms) {
            return kept;
        }
        let flight = self.flight(&key);
        let mut is_answered = match flight.try_lock() {
            Ok(is_answered) => is_answered,
            Err(_) => {
                if let Some(stale) = self.stale(&key, begun_ms) {
                    return Ok(stale);
                }
                let is_answered = flight.lock().await;
                begun_ms = clock();
                if let Some(kept) = self.fresh(&key, begun_ms) {
                    return kept;
                }
                is_answered
            }
        };
        if *is_answered {
            // After a quick answer all that waited ask at once; after a slow one they share it.
            drop(is_answered);
            let answer = self.limited(work).await;
            self.put(&key, &answer, begun_ms, clock());
            return answer;
        }
        // If this request is cancelled, the next one that waits takes its place.
        let answer = self.limited(work).await;
        self.put(&key, &answer, begun_ms, clock());
        *is_answered = true;
        lock(&self.flights).remove(&key);
        answer
    }

    /// The query under way for a key. Queries whose callers left are forgotten.
    fn flight(&self, key: &[u8]) -> Arc<Flight> {
        let mut flights = lock(&self.flights);
        flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        flights.entry(key.to_vec()).or_default().clone()
    }

    async fn limited(&self, work: impl Future<Output = Result<Sized<V>, Error>>) -> Result<Sized<V>, Error> {
        // The semaphore is never closed.
        let _permit = self.queries.acquire().await;
        work.await
    }

    fn fresh(&self, key: &[u8], now_ms: i64) -> Option<Result<Sized<V>, Error>> {
        let kept = lock(&self.kept);
        let kept = kept.get(key).filter(|kept| is_fresh(kept.at_ms, now_ms))?;
        Some(kept.answer.clone().ok_or_else(|| Refusal::too_slow().into()))
    }

    fn stale(&self, key: &[u8], now_ms: i64) -> Option<Sized<V>> {
        let kept = lock(&self.kept);
        kept.get(key).filter(|kept| (0..STALE_MS).contains(&(now_ms - kept.at_ms)))?.answer.clone()
    }

    /// Keeps a slow answer, unless the memory is full of fresh answers. The age of an answer counts from the start of its query.
    fn put(&self, key: &[u8], answer: &Result<Sized<V>, Error>, begun_ms: i64, now_ms: i64) {
        let mut all = lock(&self.kept);
        let answer = match answer {
            Ok(answer) if now_ms - begun_ms >= SLOW_MS => Some(answer.clone()),
            Err(Error::Database(error)) if is_too_slow(error) => None,
            Ok(_) => {
                all.remove(key);
                return;
            }
            Err(_) => return,
        };
        let bytes = |answer: &Option<Sized<V>>| answer.as_ref().map_or(0, |answer| answer.bytes);
        let is_full = |all: &HashMap<Vec<u8>, Kept<V>>| {
            let held: usize = all.values().map(|kept| bytes(&kept.answer)).sum();
            all.len() >= ANSWERS_MAX || held + bytes(&answer) > ANSWERS_BYTES_MAX
        };
        all.remove(key);
        if is_full(&all) {
            all.retain(|_, kept| is_fresh(kept.at_ms, now_ms));
        }
        if !is_full(&all) {
            all.insert(key.to_vec(), Kept { answer, at_ms: begun_ms });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_fresh(at_ms: i64, now_ms: i64) -> bool {
    (0..FRESH_MS).contains(&(now_ms - at_ms))
}

fn key(query: &Document) -> Option<Vec<u8>> {
    query.to_vec().ok().filter(|key| key.len() <= KEY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

    use bson::doc;
    use mongodb::error::{CommandError, ErrorKind};
    use tokio::sync::Notify;

    use super::*;

    fn sized(value: i64) -> Result<Sized<i64>, Error> {
        Ok(Sized { value, bytes: 8 })
    }

    fn put(
        cache: &Cache<i64>,
        query: &Document,
        answer: Result<Sized<i64>, Error>,
        begun_ms: i64,
        now_ms: i64,
    ) {
        cache.put(&key(query).unwrap(), &answer, begun_ms, now_ms);
    }

    fn get(cache: &Cache<i64>, query: &Document, now_ms: i64) -> Option<i64> {
        cache.fresh(&key(query).unwrap(), now_ms).map(|kept| kept.unwrap().value)
    }

    #[test]
    fn an_answer_is_kept_as_long_as_it_is_fresh() {
        let cache = Cache::default();
        put(&cache, &doc! {"a": 1}, sized(5), 1_000, 1_000 + SLOW_MS - 1);
        assert_eq!(get(&cache, &doc! {"a": 1}, 1_000), None, "it was quick");
        put(&cache, &doc! {"a": 1}, sized(5), 1_000, 1_000 + SLOW_MS);
        assert_eq!(get(&cache, &doc! {"a": 1}, 1_000 + FRESH_MS - 1), Some(5));
        assert_eq!(get(&cache, &doc! {"a": 1}, 1_000 + FRESH_MS), None);
        assert_eq!(
            get(&cache, &doc! {"a": 1}, 999),
            None,
            "a clock that goes back makes no answer fresh for long"
        );
        assert_eq!(get(&cache, &doc! {"a": 2}, 1_000), None);
    }

    #[test]
    fn the_memory_is_bounded_in_answers_and_bytes() {
        let cache = Cache::default();
        for n in 0..3_000 {
            put(&cache, &doc! {"a": n}, sized(n), 0, SLOW_MS);
        }
        assert_eq!(lock(&cache.kept).len(), ANSWERS_MAX);
        assert_eq!(key(&doc! {"a": "x".repeat(KEY_BYTES_MAX)}), None);
        put(&cache, &doc! {"b": 1}, sized(1), FRESH_MS, FRESH_MS + SLOW_MS);
        assert_eq!(lock(&cache.kept).len(), 1, "stale answers leave first");
        for n in 0..10 {
            let large = Ok(Sized { value: n, bytes: ANSWERS_BYTES_MAX / 4 });
            put(&cache, &doc! {"c": n}, large, FRESH_MS, FRESH_MS + SLOW_MS);
        }
        assert_eq!(lock(&cache.kept).len(), 1 + 3);
    }

    fn too_slow() -> Error {
        let refused: CommandError = bson::deserialize_from_document(
            doc! {"code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "slow"},
        )
        .unwrap();
        Error::Database(ErrorKind::Command(refused).into())
    }

    #[tokio::test]
    async fn requests_for_one_slow_answer_compute_it_once_and_a_failure_is_kept() {
        for fails in [false, true] {
            let (cache, now, runs, go) =
                (Cache::default(), AtomicI64::new(0), AtomicU32::new(0), Notify::new());
            let clock = || now.load(Ordering::Relaxed);
            let query = doc! {"a": 1};
            let ask = || {
                cache.answer(&query, &clock, async {
                    runs.fetch_add(1, Ordering::Relaxed);
                    go.notified().await;
                    now.fetch_add(SLOW_MS, Ordering::Relaxed);
                    if fails { Err(too_slow()) } else { sized(7) }
                })
            };
            let wake = async {
                tokio::task::yield_now().await;
                go.notify_one();
            };
            let (first, second, third, ()) = tokio::join!(ask(), ask(), ask(), wake);
            assert_eq!(runs.load(Ordering::Relaxed), 1, "{fails}");
            for answer in [first, second, third, ask().await] {
                assert_eq!(answer.ok().map(|it| it.value), (!fails).then_some(7));
            }
            assert!(lock(&cache.flights).is_empty());
        }
    }

    #[tokio::test]
    async fn an_answer_serves_others_while_it_is_computed_again_but_not_for_long() {
        let cache = Cache::default();
        let query = doc! {"a": 1};
        for (age_ms, served) in [(FRESH_MS, 5), (STALE_MS - 1, 5), (STALE_MS, 6)] {
            put(&cache, &query, sized(5), 0, SLOW_MS);
            let (now, go) = (AtomicI64::new(age_ms), Notify::new());
            let clock = || now.load(Ordering::Relaxed);
            let again = cache.answer(&query, &clock, async {
                go.notified().await;
                now.fetch_add(SLOW_MS, Ordering::Relaxed);
                sized(6)
            });
            let other = async {
                let wake = async { go.notify_one() };
                let asked = cache.answer(&query, &clock, async { unreachable!("one request computes it") });
                let (answer, ()) = tokio::join!(biased; asked, wake);
                answer
            };
            let (again, other) = tokio::join!(biased; again, other);
            assert_eq!((again.unwrap().value, other.unwrap().value), (6, served), "{age_ms}");
        }
    }

    #[tokio::test]
    async fn after_a_cancelled_request_one_of_those_that_wait_takes_its_place() {
        let (cache, now, runs, go) = (Cache::default(), AtomicI64::new(0), AtomicU32::new(0), Notify::new());
        let clock = || now.load(Ordering::Relaxed);
        let query = doc! {"a": 1};
        let ask = || {
            cache.answer(&query, &clock, async {
                runs.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                now.fetch_add(SLOW_MS, Ordering::Relaxed);
                sized(7)
            })
        };
        let first = async {
            tokio::select! {
                biased;
                _ = ask() => unreachable!("it waits"),
                () = tokio::task::yield_now() => (),
            }
        };
        let wake = async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            go.notify_waiters();
        };
        let ((), second, third, fourth, ()) = tokio::join!(first, ask(), ask(), ask(), wake);
        assert_eq!(runs.load(Ordering::Relaxed), 2, "the cancelled one and one more");
        for answer in [second, third, fourth] {
            assert_eq!(answer.ok().map(|it| it.value), Some(7));
        }
    }
}
