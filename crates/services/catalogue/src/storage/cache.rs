//! Keeps slow answers for a limited time, so that the counts and facets of a large catalogue are seldom computed. The answers of a small
//! catalogue are always exact.
//!
//! An answer is computed once for all requests that ask for it, and to its end once it has begun, even if they leave. They take the answer
//! before it, if that is not too old, or wait for a limited time. A query that takes too long is not tried again for some time. Slow queries
//! together use a part of the connections, so that others find one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::Document;
use plimsoll_service::Clock as ServiceClock;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::{Error, READ_MAX, is_slow};
use crate::Refusal;

/// The shortest time for which an answer is kept, in milliseconds.
const FRESH_MS: i64 = 30_000;
/// An answer is kept for this many times its computing time: so its query uses at most a tenth of a core.
const FRESH_TIMES: i64 = 10;
/// The time for which a query that takes too long is not tried again, in milliseconds.
const FAILED_MS: i64 = 600_000;
/// The computing time from which an answer is kept.
const SLOW: Duration = Duration::from_millis(50);
/// The longest wait of a request for an answer.
const WAIT_MAX: Duration = READ_MAX;
/// The longest computing time of an answer that is kept. The embedded server answers few other queries during a long one.
const COMPUTE_MAX: Duration = Duration::from_secs(30);
/// The maximum number of answers in memory, and of their bytes.
const ANSWERS_MAX: usize = 1_000;
const ANSWERS_BYTES_MAX: usize = 32 << 20;
/// The longest key in memory, in bytes; an answer to a longer query is not kept.
const KEY_BYTES_MAX: usize = 4_096;
/// The queries at once. The pool of connections is larger than those of counts, facets and merged lists together.
const QUERIES_MAX: usize = 8;
/// The time after which a query goes on among the long ones, and the number of those at once: a server that reads a million datasets for
/// each of them would end none of many in time.
const QUICK_MAX: Duration = Duration::from_secs(1);
const LONG_MAX: usize = 2;
/// The answers at once that are computed or wait for it.
const FLIGHTS_MAX: usize = 64;

/// A clock: milliseconds since 1970.
pub type Clock<'a> = &'a (dyn Fn() -> i64 + Send + Sync);

/// An answer and its bytes in memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sized<V> {
    pub(super) value: V,
    pub(super) bytes: usize,
}

/// Answers by query.
pub(super) struct Cache<V>(Arc<Shared<V>>);

struct Shared<V> {
    kept: Mutex<HashMap<Vec<u8>, Kept<V>>>,
    flights: Mutex<HashMap<Vec<u8>, Flight<V>>>,
    queries: Semaphore,
    long: Semaphore,
    /// The time on the monotonic clock, in nanoseconds.
    now_ns: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// A query under way.
type Flight<V> = watch::Receiver<Option<Computed<V>>>;

/// An answer, the time that its query took, and the wait before it.
#[derive(Clone, Debug)]
struct Computed<V> {
    answer: Result<Sized<V>, Error>,
    took: Duration,
    waited: Duration,
}

#[derive(Debug)]
struct Kept<V> {
    answer: Result<Sized<V>, Refusal>,
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
        let clock = ServiceClock::start();
        Self::new(move || clock.now_ns())
    }
}

impl<V> Cache<V> {
    fn new(now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let (queries, long) = (Semaphore::new(QUERIES_MAX), Semaphore::new(LONG_MAX));
        let (kept, flights) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { kept, flights, queries, long, now_ns: Box::new(now_ns) }))
    }
}

impl<V: Clone + Send + Sync + 'static> Cache<V> {
    /// The answer to a query: a fresh one, a stale one while it is computed again, or that of `work`, which gets its longest time.
    ///
    /// # Errors
    /// Those of `work`, it takes longer than a request waits, or too many others are computed.
    pub(super) async fn answer<W>(
        &self,
        query: &Document,
        clock: Clock<'_>,
        work: impl Fn(Duration) -> W + Send + Sync + 'static,
    ) -> Result<Sized<V>, Error>
    where
        W: Future<Output = Result<Sized<V>, Error>> + Send + 'static,
    {
        let Some(key) = key(query) else { return self.alone(work).await };
        let now_ms = clock();
        if let Some(kept) = self.0.fresh(&key, now_ms) {
            return kept;
        }
        let stale = self.0.stale(&key, now_ms);
        let is_refresh = stale.is_some();
        let (flight, work) = match self.join(&key, now_ms, is_refresh, work) {
            Joined::Begun(flight) => (Some(flight), None),
            Joined::UnderWay(flight, work) => (Some(flight), Some(work)),
            Joined::Full => (None, None),
        };
        if let Some(stale) = stale {
            return Ok(stale);
        }
        let Some(mut flight) = flight else { return Err(Refusal::Computing.into()) };
        let computed = match timeout(WAIT_MAX, flight.wait_for(Option::is_some)).await {
            Err(_) => return Err(Refusal::Computing.into()),
            Ok(computed) => computed.ok().and_then(|computed| computed.clone()),
        };
        match (computed, work) {
            // A quick answer of another request may lack the last change of this one.
            (Some(computed), Some(work)) if computed.took < SLOW => self.alone(work).await,
            (Some(computed), _) => computed.answer,
            // The work has panicked, or it was given up just before this request joined it.
            (None, Some(work)) => self.alone(work).await,
            (None, None) => Err(Refusal::Unavailable.into()),
        }
    }

    /// Joins the query under way for a key, or begins one.
    fn join<W, F>(&self, key: &[u8], now_ms: i64, is_refresh: bool, work: F) -> Joined<V, F>
    where
        W: Future<Output = Result<Sized<V>, Error>> + Send + 'static,
        F: Fn(Duration) -> W + Send + Sync + 'static,
    {
        let mut flights = lock(&self.0.flights);
        if let Some(flight) = flights.get(key).filter(|flight| flight.has_changed().is_ok()) {
            return Joined::UnderWay(flight.clone(), work);
        }
        if flights.len() >= FLIGHTS_MAX {
            // Work that has panicked is still in the list.
            flights.retain(|_, flight| flight.has_changed().is_ok());
        }
        if flights.len() >= FLIGHTS_MAX {
            return Joined::Full;
        }
        let (sender, flight) = watch::channel(None);
        flights.insert(key.to_vec(), flight.clone());
        let (shared, key) = (self.0.clone(), key.to_vec());
        tokio::spawn(async move {
            let computed = {
                // One receiver is that of the list.
                let is_wanted = || is_refresh || sender.receiver_count() > 1;
                match shared.computed(&shared.queries, || work(QUICK_MAX), &is_wanted).await {
                    Some(Computed { answer: Err(error), .. }) if is_slow(&error) => {
                        shared.computed(&shared.long, || work(COMPUTE_MAX), &is_wanted).await
                    }
                    computed => computed,
                }
            };
            if let Some(computed) = &computed {
                shared.put(&key, computed, now_ms);
            }
            lock(&shared.flights).remove(&key);
            sender.send_replace(computed);
        });
        Joined::Begun(flight)
    }

    /// An answer for one request.
    async fn alone<W>(&self, work: impl Fn(Duration) -> W) -> Result<Sized<V>, Error>
    where
        W: Future<Output = Result<Sized<V>, Error>>,
    {
        let computed = timeout(WAIT_MAX, self.0.computed(&self.0.queries, || work(READ_MAX), || true)).await;
        computed.ok().flatten().ok_or_else(|| Refusal::too_slow(WAIT_MAX))?.answer
    }
}

/// The place of a request among those that ask for an answer.
enum Joined<V, F> {
    /// It has begun the query.
    Begun(Flight<V>),
    /// Another request has begun it. The work comes back.
    UnderWay(Flight<V>, F),
    /// Too many queries are under way.
    Full,
}

impl<V: Clone> Shared<V> {
    /// Does the work once it has a permit, if it is still wanted.
    async fn computed<W>(
        &self,
        permits: &Semaphore,
        work: impl FnOnce() -> W,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Computed<V>>
    where
        W: Future<Output = Result<Sized<V>, Error>>,
    {
        let asked_ns = (self.now_ns)();
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        if !is_wanted() {
            return None;
        }
        let begun_ns = (self.now_ns)();
        let answer = work().await;
        let between = |from_ns: u64, to_ns: u64| Duration::from_nanos(to_ns.saturating_sub(from_ns));
        let took = between(begun_ns, (self.now_ns)());
        Some(Computed { answer, took, waited: between(asked_ns, begun_ns) })
    }

    fn fresh(&self, key: &[u8], now_ms: i64) -> Option<Result<Sized<V>, Error>> {
        let kept = lock(&self.kept);
        let kept = kept.get(key).filter(|kept| kept.is_fresh(now_ms))?;
        Some(kept.answer.clone().map_err(Error::from))
    }

    fn stale(&self, key: &[u8], now_ms: i64) -> Option<Sized<V>> {
        let kept = lock(&self.kept);
        kept.get(key).filter(|kept| kept.is_stale(now_ms))?.answer.clone().ok()
    }

    /// Keeps the result of slow work, unless the memory is full of fresh answers. Its age counts from the beginning of the work.
    fn put(&self, key: &[u8], computed: &Computed<V>, asked_ms: i64) {
        let mut all = lock(&self.kept);
        let took_ms = computed.took.as_millis() as i64;
        let (answer, fresh_ms) = match &computed.answer {
            answer if computed.took < SLOW => {
                if answer.is_ok() {
                    all.remove(key);
                }
                return;
            }
            Ok(answer) => (Ok(answer.clone()), (took_ms * FRESH_TIMES).max(FRESH_MS)),
            Err(error) if is_slow(error) => (Err(Refusal::too_slow(COMPUTE_MAX)), took_ms + FAILED_MS),
            Err(Error::Refused(refusal)) => (Err(refusal.clone()), took_ms + FAILED_MS),
            Err(_) => return,
        };
        let at_ms = asked_ms + computed.waited.as_millis() as i64;
        let now_ms = at_ms + took_ms;
        let bytes = |answer: &Result<Sized<V>, Refusal>| answer.as_ref().map_or(0, |answer| answer.bytes);
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
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bson::doc;
    use futures_util::future::{BoxFuture, join_all};
    use tokio::time::sleep;

    use super::super::error::too_slow;
    use super::*;

    type Answer = Result<Sized<i64>, Error>;

    std::thread_local! {
        /// The monotonic clock of a test: it moves with its work.
        static NOW_NS: Cell<u64> = const { Cell::new(0) };
    }

    const QUICK: Duration = SLOW.saturating_sub(Duration::from_millis(1));

    fn sized(value: i64) -> Answer {
        Ok(Sized { value, bytes: 8 })
    }

    fn put(cache: &Cache<i64>, query: &Document, answer: Answer, at_ms: i64, took: Duration) {
        let waited = Duration::from_secs(5);
        cache.0.put(&key(query).unwrap(), &Computed { answer, took, waited }, at_ms - 5_000);
    }

    fn get(cache: &Cache<i64>, query: &Document, now_ms: i64) -> Option<i64> {
        cache.0.fresh(&key(query).unwrap(), now_ms).map(|kept| kept.unwrap().value)
    }

    /// Work that takes a time, if it may.
    fn work(
        took: Duration,
        runs: &Arc<AtomicU32>,
        answer: fn() -> Answer,
    ) -> impl Fn(Duration) -> BoxFuture<'static, Answer> + Send + Sync + 'static {
        let runs = runs.clone();
        move |max_time| {
            let runs = runs.clone();
            let work = async move {
                runs.fetch_add(1, Ordering::Relaxed);
                let end_ns = NOW_NS.get() + took.min(max_time).as_nanos() as u64;
                sleep(took.min(max_time)).await;
                NOW_NS.set(NOW_NS.get().max(end_ns));
                if took > max_time { Err(too_slow()) } else { answer() }
            };
            Box::pin(work)
        }
    }

    #[test]
    fn an_answer_is_kept_for_a_time_that_depends_on_its_computing_time() {
        let cache = Cache::new(|| NOW_NS.get());
        put(&cache, &doc! {"a": 1}, sized(5), 1_000, QUICK);
        assert_eq!(get(&cache, &doc! {"a": 1}, 1_000), None, "it was quick");
        for (took, fresh_ms) in [(SLOW, FRESH_MS), (Duration::from_secs(20), 200_000)] {
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
        let cache = Cache::new(|| NOW_NS.get());
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

    #[tokio::test(start_paused = true)]
    async fn requests_for_one_slow_answer_compute_it_once_and_a_failure_is_kept() {
        let answers: [(fn() -> Answer, _); 2] = [(|| sized(7), Some(7)), (|| Err(too_slow()), None)];
        for (answer, expected) in answers {
            let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
            let query = doc! {"a": 1};
            // A query that takes too long fails twice: quickly, and among the long ones.
            let ask = || cache.answer(&query, &|| 0, work(SLOW, &runs, answer));
            let (first, second, third) = tokio::join!(ask(), ask(), ask());
            for found in [first, second, third, ask().await] {
                assert_eq!(found.ok().map(|it| it.value), expected);
            }
            assert_eq!(runs.load(Ordering::Relaxed), if expected.is_some() { 1 } else { 2 });
            assert!(lock(&cache.0.flights).is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_answer_of_another_request_is_not_shared() {
        let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
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
            let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
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
        let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
        let query = doc! {"a": 1};
        let ask = || cache.answer(&query, &|| 0, work(WAIT_MAX * 3 / 2, &runs, || sized(7)));
        assert!(timeout(2 * QUICK_MAX, ask()).await.is_err(), "the client leaves");
        let refused = ask().await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::Computing)), "{refused}");
        assert_eq!(ask().await.unwrap().value, 7);
        assert_eq!(runs.load(Ordering::Relaxed), 2, "a quick attempt and a long one");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_refuses_its_requests_and_the_next_one_tries_again() {
        let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
        let query = doc! {"a": 1};
        let refused = cache.answer(&query, &|| 0, work(SLOW, &runs, || panic!("as planned"))).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Unavailable))), "{refused:?}");
        let answer = cache.answer(&query, &|| 0, work(SLOW, &runs, || sized(7))).await;
        assert_eq!(answer.unwrap().value, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_under_way_are_bounded_and_those_that_no_request_wants_are_not_begun() {
        let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
        let ask =
            async |n: i64| cache.answer(&doc! {"a": n}, &|| 0, work(COMPUTE_MAX, &runs, || sized(7))).await;
        let all = join_all((0..100).map(|n| timeout(SLOW, ask(n)))).await;
        let refused = all.iter().filter(|it| matches!(it, Ok(Err(Error::Refused(Refusal::Computing)))));
        assert_eq!((refused.count(), lock(&cache.0.flights).len()), (100 - FLIGHTS_MAX, FLIGHTS_MAX));
        sleep(Duration::from_secs(250)).await;
        assert_eq!(runs.load(Ordering::Relaxed), QUERIES_MAX as u32, "the clients of all have left");
        assert!(lock(&cache.0.flights).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_a_key_is_computed_for_its_request_alone_and_within_its_time() {
        let (cache, runs) = (Cache::new(|| NOW_NS.get()), Arc::default());
        let query = doc! {"a": "x".repeat(KEY_BYTES_MAX)};
        for (took, expected) in [(READ_MAX - SLOW, Some(7)), (READ_MAX + SLOW, None)] {
            let answer = cache.answer(&query, &|| 0, work(took, &runs, || sized(7))).await;
            assert_eq!(answer.ok().map(|it| it.value), expected);
        }
    }
}
