//! Keeps slow answers for a limited time, so that the counts and facets of a large catalogue are seldom computed. The answers of a small
//! catalogue are always exact.
//!
//! An answer is computed once for all requests that ask for it, and to its end even if they leave. They take the answer before it, if that
//! is not too old, or wait for a limited time. A query that takes too long is not tried again for some time. Slow queries together use a part
//! of the connections, so that others find one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::Document;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::Error;
use super::error::is_too_slow;
use crate::Refusal;

/// The shortest and the longest time for which an answer is kept, in milliseconds.
const FRESH_MS: i64 = 30_000;
const FRESH_MS_MAX: i64 = 600_000;
/// An answer is kept for this many times its computing time: so its query uses at most a tenth of a core.
const FRESH_TIMES: i64 = 10;
/// The time for which a query that takes too long is not tried again, in milliseconds.
const FAILED_MS: i64 = 60_000;
/// The computing time from which an answer is kept.
const SLOW: Duration = Duration::from_millis(50);
/// The longest wait of a request for an answer.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest computing time of an answer.
pub(super) const COMPUTE_MAX: Duration = Duration::from_secs(120);
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

/// Answers by query.
#[derive(Debug)]
pub(super) struct Cache<V>(Arc<Shared<V>>);

#[derive(Debug)]
struct Shared<V> {
    kept: Mutex<HashMap<Vec<u8>, Kept<V>>>,
    flights: Mutex<HashMap<Vec<u8>, Flight<V>>>,
    queries: Semaphore,
}

/// A query under way.
type Flight<V> = watch::Receiver<Option<Computed<V>>>;

/// An answer, and the time that it took.
#[derive(Clone, Debug)]
struct Computed<V> {
    answer: Result<Sized<V>, Error>,
    took: Duration,
}

#[derive(Debug)]
struct Kept<V> {
    /// `None`: the query takes too long.
    answer: Option<Sized<V>>,
    at_ms: i64,
    fresh_ms: i64,
}

impl<V> Kept<V> {
    fn is_fresh(&self, now_ms: i64) -> bool {
        (0..self.fresh_ms).contains(&(now_ms - self.at_ms))
    }

    /// Whether the answer serves while it is computed again.
    fn is_stale(&self, now_ms: i64) -> bool {
        (0..2 * self.fresh_ms).contains(&(now_ms - self.at_ms))
    }
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        let queries = Semaphore::new(QUERIES_MAX);
        Self(Arc::new(Shared { kept: Mutex::default(), flights: Mutex::default(), queries }))
    }
}

impl<V: Clone + Send + Sync + 'static> Cache<V> {
    /// The answer to a query: a fresh one, a stale one while it is computed again, or that of `work`.
    ///
    /// # Errors
    /// Those of `work`, or it takes longer than a request waits.
    pub(super) async fn answer<W>(
        &self,
        query: &Document,
        clock: Clock<'_>,
        work: W,
    ) -> Result<Sized<V>, Error>
    where
        W: Future<Output = Result<Sized<V>, Error>> + Send + 'static,
    {
        let Some(key) = key(query) else { return self.alone(work).await };
        let now_ms = clock();
        if let Some(kept) = self.0.fresh(&key, now_ms) {
            return kept;
        }
        let (mut flight, work) = self.board(&key, now_ms, work);
        if let Some(stale) = self.0.stale(&key, now_ms) {
            return Ok(stale);
        }
        let computed = match timeout(WAIT_MAX, flight.wait_for(Option::is_some)).await {
            Err(_) => return Err(Refusal::Computing.into()),
            Ok(computed) => computed.ok().and_then(|computed| computed.clone()),
        };
        match (computed, work) {
            // A quick answer of another request may lack the last change of this one.
            (Some(computed), Some(work)) if computed.took < SLOW => self.alone(work).await,
            (Some(computed), _) => computed.answer,
            // The work has panicked.
            (None, _) => Err(Refusal::Unavailable.into()),
        }
    }

    /// The query under way for a key. Begins one if there is none; otherwise returns the work.
    fn board<W>(&self, key: &[u8], now_ms: i64, work: W) -> (Flight<V>, Option<W>)
    where
        W: Future<Output = Result<Sized<V>, Error>> + Send + 'static,
    {
        let mut flights = lock(&self.0.flights);
        if let Some(flight) = flights.get(key).filter(|flight| flight.has_changed().is_ok()) {
            return (flight.clone(), Some(work));
        }
        let (sender, flight) = watch::channel(None);
        flights.insert(key.to_vec(), flight.clone());
        let (shared, key) = (self.0.clone(), key.to_vec());
        tokio::spawn(async move {
            let computed = shared.computed(work).await;
            shared.put(&key, &computed, now_ms);
            lock(&shared.flights).remove(&key);
            sender.send_replace(Some(computed));
        });
        (flight, None)
    }

    /// An answer for one request.
    async fn alone(&self, work: impl Future<Output = Result<Sized<V>, Error>>) -> Result<Sized<V>, Error> {
        let computed = timeout(WAIT_MAX, self.0.computed(work)).await;
        computed.map_err(|_| Refusal::too_slow())?.answer
    }
}

impl<V: Clone> Shared<V> {
    async fn computed(&self, work: impl Future<Output = Result<Sized<V>, Error>>) -> Computed<V> {
        // The semaphore is never closed.
        let _permit = self.queries.acquire().await;
        let begun = Instant::now();
        let answer = work.await;
        Computed { answer, took: begun.elapsed() }
    }

    fn fresh(&self, key: &[u8], now_ms: i64) -> Option<Result<Sized<V>, Error>> {
        let kept = lock(&self.kept);
        let kept = kept.get(key).filter(|kept| kept.is_fresh(now_ms))?;
        Some(kept.answer.clone().ok_or_else(|| Refusal::too_slow().into()))
    }

    fn stale(&self, key: &[u8], now_ms: i64) -> Option<Sized<V>> {
        let kept = lock(&self.kept);
        kept.get(key).filter(|kept| kept.is_stale(now_ms))?.answer.clone()
    }

    /// Keeps a slow answer, unless the memory is full of fresh answers. The age of an answer counts from the request that began its query.
    fn put(&self, key: &[u8], computed: &Computed<V>, at_ms: i64) {
        let mut all = lock(&self.kept);
        let took_ms = computed.took.as_millis() as i64;
        let (answer, fresh_ms) = match &computed.answer {
            Ok(answer) if computed.took >= SLOW => {
                (Some(answer.clone()), (took_ms * FRESH_TIMES).clamp(FRESH_MS, FRESH_MS_MAX))
            }
            Err(Error::Database(error)) if is_too_slow(error) => (None, took_ms + FAILED_MS),
            Ok(_) => {
                all.remove(key);
                return;
            }
            Err(_) => return,
        };
        let now_ms = at_ms + took_ms;
        let bytes = |answer: &Option<Sized<V>>| answer.as_ref().map_or(0, |answer| answer.bytes);
        let is_full = |all: &HashMap<Vec<u8>, Kept<V>>| {
            let held: usize = all.values().map(|kept| bytes(&kept.answer)).sum();
            all.len() >= ANSWERS_MAX || held + bytes(&answer) > ANSWERS_BYTES_MAX
        };
        all.remove(key);
        if is_full(&all) {
            all.retain(|_, kept| kept.is_fresh(now_ms));
        }
        if !is_full(&all) {
            all.insert(key.to_vec(), Kept { answer, at_ms, fresh_ms });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(query: &Document) -> Option<Vec<u8>> {
    query.to_vec().ok().filter(|key| key.len() <= KEY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use bson::doc;
    use mongodb::error::{CommandError, ErrorKind};
    use tokio::time::sleep;

    use super::*;

    const QUICK: Duration = SLOW.saturating_sub(Duration::from_millis(1));

    fn sized(value: i64) -> Result<Sized<i64>, Error> {
        Ok(Sized { value, bytes: 8 })
    }

    fn put(
        cache: &Cache<i64>,
        query: &Document,
        answer: Result<Sized<i64>, Error>,
        at_ms: i64,
        took: Duration,
    ) {
        cache.0.put(&key(query).unwrap(), &Computed { answer, took }, at_ms);
    }

    fn get(cache: &Cache<i64>, query: &Document, now_ms: i64) -> Option<i64> {
        cache.0.fresh(&key(query).unwrap(), now_ms).map(|kept| kept.unwrap().value)
    }

    /// Work that takes a time.
    fn work(
        took: Duration,
        runs: &Arc<AtomicU32>,
        answer: fn() -> Result<Sized<i64>, Error>,
    ) -> impl Future<Output = Result<Sized<i64>, Error>> + Send + use<> {
        let runs = runs.clone();
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            sleep(took).await;
            answer()
        }
    }

    #[test]
    fn an_answer_is_kept_for_a_time_that_depends_on_its_computing_time() {
        let cache = Cache::default();
        put(&cache, &doc! {"a": 1}, sized(5), 1_000, QUICK);
        assert_eq!(get(&cache, &doc! {"a": 1}, 1_000), None, "it was quick");
        for (took, fresh_ms) in
            [(SLOW, FRESH_MS), (Duration::from_secs(20), 200_000), (Duration::from_secs(100), FRESH_MS_MAX)]
        {
            put(&cache, &doc! {"a": 1}, sized(5), 1_000, took);
            assert_eq!(get(&cache, &doc! {"a": 1}, 1_000 + fresh_ms - 1), Some(5));
            assert_eq!(get(&cache, &doc! {"a": 1}, 1_000 + fresh_ms), None);
        }
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
            put(&cache, &doc! {"a": n}, sized(n), 0, SLOW);
        }
        assert_eq!(lock(&cache.0.kept).len(), ANSWERS_MAX);
        assert_eq!(key(&doc! {"a": "x".repeat(KEY_BYTES_MAX)}), None);
        put(&cache, &doc! {"b": 1}, sized(1), FRESH_MS, SLOW);
        assert_eq!(lock(&cache.0.kept).len(), 1, "stale answers leave first");
        for n in 0..10 {
            let large = Ok(Sized { value: n, bytes: ANSWERS_BYTES_MAX / 4 });
            put(&cache, &doc! {"c": n}, large, FRESH_MS, SLOW);
        }
        assert_eq!(lock(&cache.0.kept).len(), 1 + 3);
    }

    fn too_slow() -> Error {
        let refused: CommandError = bson::deserialize_from_document(
            doc! {"code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "slow"},
        )
        .unwrap();
        Error::Database(ErrorKind::Command(refused).into())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_for_one_slow_answer_compute_it_once_and_a_failure_is_kept() {
        let answers: [(fn() -> Result<Sized<i64>, Error>, _); 2] =
            [(|| sized(7), Some(7)), (|| Err(too_slow()), None)];
        for (answer, expected) in answers {
            let (cache, runs) = (Cache::default(), Arc::default());
            let query = doc! {"a": 1};
            let ask = || cache.answer(&query, &|| 0, work(SLOW, &runs, answer));
            let (first, second, third) = tokio::join!(ask(), ask(), ask());
            for found in [first, second, third, ask().await] {
                assert_eq!(found.ok().map(|it| it.value), expected);
            }
            assert_eq!(runs.load(Ordering::Relaxed), 1);
            assert!(lock(&cache.0.flights).is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_answer_of_another_request_is_not_shared() {
        let (cache, runs) = (Cache::default(), Arc::default());
        let query = doc! {"a": 1};
        let ask = || cache.answer(&query, &|| 0, work(QUICK, &runs, || sized(7)));
        let (first, second) = tokio::join!(ask(), ask());
        assert_eq!((first.unwrap().value, second.unwrap().value), (7, 7));
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_serves_while_it_is_computed_again_but_not_for_long() {
        let query = doc! {"a": 1};
        for (age_ms, served) in [(FRESH_MS - 1, 5), (FRESH_MS, 5), (2 * FRESH_MS - 1, 5), (2 * FRESH_MS, 6)] {
            let (cache, runs) = (Cache::default(), Arc::default());
            put(&cache, &query, sized(5), 0, SLOW);
            let answer = cache.answer(&query, &|| age_ms, work(SLOW, &runs, || sized(6))).await;
            assert_eq!(answer.unwrap().value, served, "{age_ms}");
            sleep(SLOW * 2).await;
            assert_eq!(runs.load(Ordering::Relaxed), u32::from(age_ms >= FRESH_MS));
            let expected = if age_ms >= FRESH_MS { 6 } else { 5 };
            assert_eq!(
                get(&cache, &query, age_ms),
                Some(expected),
                "it is computed without a request that waits"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_computed_to_its_end_although_its_requests_have_left() {
        let (cache, runs) = (Cache::default(), Arc::default());
        let query = doc! {"a": 1};
        let ask = || cache.answer(&query, &|| 0, work(WAIT_MAX * 3 / 2, &runs, || sized(7)));
        assert!(timeout(SLOW, ask()).await.is_err(), "the client leaves");
        let refused = ask().await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::Computing)), "{refused}");
        assert_eq!(ask().await.unwrap().value, 7);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_refuses_its_requests_and_the_next_one_tries_again() {
        let (cache, runs) = (Cache::default(), Arc::default());
        let query = doc! {"a": 1};
        let refused = cache.answer(&query, &|| 0, work(SLOW, &runs, || panic!("as planned"))).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Unavailable))), "{refused:?}");
        let answer = cache.answer(&query, &|| 0, work(SLOW, &runs, || sized(7))).await;
        assert_eq!(answer.unwrap().value, 7);
    }
}
