//! Reads pages of the newest datasets by ranges of dates, if the server takes long for them.
//!
//! A server that ends a scan at its limit answers a page at once. Another one reads and sorts all datasets that the conditions admit. Once it
//! has taken too long for a query, the pages of that query are read for some minutes in a range that ends at the newest date, or at the cursor.
//! The range grows until it fills the page, or until it gains nothing: then everything is read. A full page is exact: no older dataset
//! belongs to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use super::cache::Clock;
use super::{Error, Listing, READ_MAX, is_slow};
use crate::documents::search::GRAMS;
use crate::query::page::{Cursor, KEYSET, Page};

/// The maximum number of queries in memory, and of the bytes of each.
const QUERIES_MAX: usize = 1_000;
const QUERY_BYTES_MAX: usize = 4_096;
/// Conditions on these fields leave few datasets, which the server finds by their index.
const SELECTIVE: [&str; 3] = ["_id", "pid", GRAMS];
/// The time for which a query counts as slow, in milliseconds.
const SLOW_MS: i64 = 600_000;
/// The longest time of a query for a range.
const RANGE_MAX: Duration = Duration::from_secs(1);
/// The time after which a page is read from everything, in milliseconds.
const RANGES_MS: i64 = 8_000;
/// The first range of a query, in milliseconds.
const SPAN_MS: i64 = 60_000;
/// The growth of a range that does not fill the page.
const GROWTH: i64 = 8;
/// A range of 400 years has no lower bound.
const EVER_MS: i64 = 400 * 366 * 86_400_000;

/// The slow queries.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<HashMap<Vec<u8>, Slow>>);

/// A query that took too long at a moment.
#[derive(Clone, Copy, Debug)]
struct Slow {
    at_ms: i64,
    last: Last,
}

/// The range of the last page of a slow query.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Last {
    /// No page is known.
    Unknown,
    /// A first page ended at this date.
    End(DateTime),
    /// The range of a page had this length, in milliseconds.
    Span(i64),
}

/// A query whose pages can be read by ranges.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    key: Vec<u8>,
    field: &'static str,
    limit: u64,
    /// The date of the cursor.
    from: Option<DateTime>,
}

/// A range of dates before a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    from_ms: i64,
    span_ms: i64,
    /// The longest range that did not fill the page.
    short_ms: i64,
    /// The shortest range that took too long.
    slow_ms: Option<i64>,
}

impl Query {
    /// `None` if the page is in another order, comes after the last dataset with a date, or has conditions that leave few datasets. `client` is
    /// without the condition of the cursor.
    pub(super) fn of(
        access: &Document,
        client: &Document,
        page: &Page,
        after: Option<&Cursor>,
    ) -> Option<Self> {
        let (name, direction) = page.sort.iter().next()?;
        let field = KEYSET.into_iter().find(|known| known == name && direction.as_i32() == Some(-1))?;
        let from = after.map(Cursor::at);
        if from == Some(None) || SELECTIVE.iter().any(|field| names(client, field)) {
            return None;
        }
        let (skip, limit) = (page.skip as i64, page.limit as i64);
        let query = doc! {
            "access": access, "client": client, "sort": &page.sort, "skip": skip, "limit": limit,
            "follows": after.is_some(),
        };
        let key = query.to_vec().ok().filter(|key| key.len() <= QUERY_BYTES_MAX)?;
        Some(Self { key, field, limit: page.limit, from: from.flatten() })
    }

    /// The conditions of a client within a range. The range comes first: a server may choose its index by the first condition.
    fn within(&self, client: &Document, range: &Range) -> Document {
        let Some(end) = range.end() else { return client.clone() };
        let mut bounds = doc! {"$gte": end};
        if let Some(from) = self.from {
            bounds.insert("$lte", from);
        }
        let mut within = doc! {self.field: bounds};
        if !client.is_empty() {
            within.insert("$and", vec![client.clone()]);
        }
        within
    }

    /// The moment before which the range lies. A cursor of a client may name any date.
    fn start_ms(&self, now_ms: i64) -> i64 {
        self.from.map_or(now_ms, |from| from.timestamp_millis().min(now_ms))
    }

    /// Whether these documents fill the page.
    fn is_full(&self, documents: &[Document]) -> bool {
        documents.len() as u64 == self.limit
    }
}

impl Range {
    /// The date at which the range ends; `None` if it has no end.
    fn end(&self) -> Option<DateTime> {
        (self.span_ms < EVER_MS).then(|| DateTime::from_millis(self.from_ms.saturating_sub(self.span_ms)))
    }

    /// Whether every dataset is in the range.
    fn is_all(&self) -> bool {
        self.end().is_none()
    }

    fn everything(&mut self) {
        self.span_ms = EVER_MS;
    }

    /// A longer range: this one did not fill the page.
    fn grow(&mut self) {
        self.short_ms = self.short_ms.max(self.span_ms);
        self.span_ms = match self.slow_ms {
            None => self.span_ms.saturating_mul(GROWTH),
            Some(slow_ms) => between(self.short_ms, slow_ms),
        };
    }

    /// A shorter range: this one took too long.
    fn shrink(&mut self) {
        let slow_ms = self.slow_ms.map_or(self.span_ms, |slow_ms| slow_ms.min(self.span_ms));
        (self.slow_ms, self.span_ms) = (Some(slow_ms), between(self.short_ms, slow_ms));
    }
}

/// A span between a short and a slow one: their geometric middle, or everything if they are too near to each other.
fn between(short_ms: i64, slow_ms: i64) -> i64 {
    let middle_ms = (short_ms.max(1) as f64 * slow_ms as f64).sqrt() as i64;
    let is_near = slow_ms - short_ms <= SPAN_MS || middle_ms <= short_ms;
    if is_near { EVER_MS } else { middle_ms }
}

/// Whether a filter tests a field at any depth.
pub(super) fn names(filter: &Document, field: &str) -> bool {
    filter.iter().any(|(name, value)| {
        let inner = |value: &Bson| value.as_document().is_some_and(|inner| names(inner, field));
        name == field || inner(value) || value.as_array().is_some_and(|items| items.iter().any(inner))
    })
}

impl Newest {
    /// Whether the server has taken too long for a query.
    pub(super) fn is_slow(&self, query: &Query, now_ms: i64) -> bool {
        let queries = self.queries();
        queries.get(&query.key).is_some_and(|slow| (0..SLOW_MS).contains(&(now_ms - slow.at_ms)))
    }

    /// Reads a page by ranges, for which the server has taken too long. `read` gets the conditions of the client within a range, and the
    /// longest time of its query.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) async fn page<R>(
        &self,
        query: &Query,
        client: &Document,
        clock: Clock<'_>,
        mut read: impl FnMut(Document, Duration) -> R,
    ) -> Result<Listing, Error>
    where
        R: Future<Output = Result<Listing, Error>>,
    {
        let begun_ms = clock();
        let mut range = self.range(query, begun_ms);
        loop {
            let max_time = if range.is_all() { READ_MAX } else { RANGE_MAX };
            match read(query.within(client, &range), max_time).await {
                Ok(page) if range.is_all() || query.is_full(&page.documents) => {
                    self.remember(query, &range, &page.documents);
                    return Ok(page);
                }
                Ok(_) => range.grow(),
                Err(error) if is_slow(&error) && !range.is_all() => range.shrink(),
                Err(error) => return Err(error),
            }
            if clock() - begun_ms > RANGES_MS {
                range.everything();
            }
        }
    }

    /// Notes a slow query, and returns the range of its page.
    fn range(&self, query: &Query, now_ms: i64) -> Range {
        let mut queries = self.queries();
        if queries.len() >= QUERIES_MAX && !queries.contains_key(&query.key) {
            queries.clear();
        }
        let slow = queries.entry(query.key.clone()).or_insert(Slow { at_ms: now_ms, last: Last::Unknown });
        if !(0..SLOW_MS).contains(&(now_ms - slow.at_ms)) {
            slow.at_ms = now_ms;
        }
        let from_ms = query.start_ms(now_ms);
        let span_ms = match slow.last {
            Last::Unknown => SPAN_MS,
            Last::End(end) => from_ms.saturating_sub(end.timestamp_millis()).max(1),
            Last::Span(span_ms) => span_ms,
        };
        Range { from_ms, span_ms, short_ms: 0, slow_ms: None }
    }

    /// Keeps the range of a page for the next one.
    fn remember(&self, query: &Query, range: &Range, documents: &[Document]) {
        let last = documents.last().and_then(|last| last.get_datetime(query.field).ok().copied());
        // A projection may leave the date out.
        let end = last.or(range.end());
        let last = match (end, query.from) {
            (Some(end), None) if query.is_full(documents) => Last::End(end),
            (Some(end), Some(_)) if query.is_full(documents) => {
                Last::Span(range.from_ms.saturating_sub(end.timestamp_millis()).max(1))
            }
            // No range fills the page.
            _ => Last::Span(range.span_ms),
        };
        if let Some(slow) = self.queries().get_mut(&query.key) {
            slow.last = last;
        }
    }

    fn queries(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Slow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_790_000_000_000;

    fn newest_first() -> Page {
        Page { skip: 0, limit: 2, sort: doc! {"creationTime": -1, "_id": -1} }
    }

    fn dataset(ms: i64) -> Document {
        doc! {"_id": "a", "creationTime": DateTime::from_millis(ms)}
    }

    fn query(client: Document, after: Option<&Cursor>) -> Query {
        Query::of(&doc! {"isPublished": true}, &client, &newest_first(), after).unwrap()
    }

    fn ends_ms(range: &Range) -> i64 {
        range.end().unwrap().timestamp_millis()
    }

    #[test]
    fn a_first_page_ends_where_the_last_one_did_and_a_later_page_is_as_long_as_the_last_one() {
        let newest = Newest::default();
        let first = query(doc! {"type": "raw"}, None);
        assert!(!newest.is_slow(&first, NOW_MS));
        let range = newest.range(&first, NOW_MS);
        assert!(newest.is_slow(&first, NOW_MS) && !newest.is_slow(&query(doc! {}, None), NOW_MS));
        assert!(!newest.is_slow(&first, NOW_MS + SLOW_MS), "the plain query is tried again");
        newest.remember(&first, &range, &[dataset(9), dataset(7)]);
        let range = newest.range(&first, NOW_MS + 1_000);
        let within = doc! {"creationTime": {"$gte": DateTime::from_millis(7)}, "$and": [{"type": "raw"}]};
        assert_eq!(first.within(&doc! {"type": "raw"}, &range), within);
        newest.remember(&first, &range, &[doc! {"_id": "a"}, doc! {"_id": "b"}]);
        assert_eq!(
            ends_ms(&newest.range(&first, NOW_MS)),
            7,
            "a projection without the date tells nothing new"
        );

        let cursor = Cursor::of(&dataset(NOW_MS), &newest_first().sort).unwrap();
        let later = query(doc! {}, Some(&cursor));
        let range = newest.range(&later, NOW_MS + 9);
        assert_eq!(ends_ms(&range), NOW_MS - SPAN_MS);
        newest.remember(&later, &range, &[dataset(NOW_MS - 10), dataset(NOW_MS - 500)]);
        let range = newest.range(&later, NOW_MS + 9);
        let from = DateTime::from_millis(NOW_MS);
        let within = doc! {"creationTime": {"$gte": DateTime::from_millis(NOW_MS - 500), "$lte": from}};
        assert_eq!(later.within(&doc! {}, &range), within);
        let far = Cursor::of(&dataset(i64::MAX), &newest_first().sort).unwrap();
        let range = newest.range(&query(doc! {}, Some(&far)), NOW_MS);
        assert_eq!(ends_ms(&range), NOW_MS - 500, "a cursor in the future begins now");
    }

    /// A server with a dataset at each of some ages: the time of a query grows with the datasets in its range.
    struct Server {
        ages_ms: Vec<i64>,
        /// The datasets that it reads in a second.
        speed: usize,
        now_ms: std::cell::Cell<i64>,
        queries: std::cell::Cell<u32>,
    }

    impl Server {
        fn new(ages_ms: Vec<i64>, speed: usize) -> Self {
            Self { ages_ms, speed, now_ms: NOW_MS.into(), queries: 0.into() }
        }

        /// The first two datasets of a range that belong to the page: every `nth` does.
        fn read(&self, within: &Document, max_time: Duration, nth: usize) -> Result<Listing, Error> {
            let bounds = within.get_document("creationTime").ok();
            let end = bounds.map_or(i64::MIN, |it| it.get_datetime("$gte").unwrap().timestamp_millis());
            let inside: Vec<_> =
                self.ages_ms.iter().map(|age| NOW_MS - age).filter(|at_ms| *at_ms >= end).collect();
            let time = Duration::from_secs_f64(inside.len() as f64 / self.speed as f64);
            self.queries.set(self.queries.get() + 1);
            self.now_ms.set(self.now_ms.get() + time.min(max_time).as_millis() as i64);
            if time > max_time {
                return Err(crate::storage::error::too_slow());
            }
            let documents = inside.iter().step_by(nth).take(2).map(|at_ms| dataset(*at_ms)).collect();
            Ok(Listing { documents, next: None })
        }

        /// The dates of the page, and the queries and milliseconds that it took.
        async fn page(&self, newest: &Newest, nth: usize) -> (Vec<i64>, u32, i64) {
            let (begun_ms, before) = (self.now_ms.get(), self.queries.get());
            let now_ms = std::sync::atomic::AtomicI64::new(begun_ms);
            let clock = || now_ms.load(std::sync::atomic::Ordering::Relaxed);
            let read = |within: Document, max_time| {
                let read = self.read(&within, max_time, nth);
                now_ms.store(self.now_ms.get(), std::sync::atomic::Ordering::Relaxed);
                async { read }
            };
            let page = newest.page(&query(doc! {}, None), &doc! {}, &clock, read).await.unwrap();
            let at_ms = |it: &Document| it.get_datetime("creationTime").unwrap().timestamp_millis();
            let dates = page.documents.iter().map(at_ms).collect();
            (dates, self.queries.get() - before, self.now_ms.get() - begun_ms)
        }
    }

    #[tokio::test]
    async fn a_page_of_a_slow_server_is_found_and_the_next_one_takes_one_query() {
        let day_ms = 86_400_000;
        // A dataset each 10 s; none in the last days; all within two hours, a year ago.
        let even: Vec<_> = (0..1_000_000).map(|n| n * 10_000).collect();
        let old: Vec<_> = even.iter().map(|age| age + 40 * day_ms).collect();
        let dense: Vec<_> = (0..1_000_000).map(|n| 365 * day_ms + n * 7).collect();
        // The dense ones need more queries than there is time for, so everything is read.
        for (ages_ms, name, most_ms) in
            [(even, "even", 1_000), (old, "old", 3_000), (dense, "dense", RANGES_MS + 1_000 + 10_000)]
        {
            let expected = vec![NOW_MS - ages_ms[0], NOW_MS - ages_ms[1]];
            let (server, newest) = (Server::new(ages_ms, 100_000), Newest::default());
            let (dates, queries, took_ms) = server.page(&newest, 1).await;
            assert_eq!(dates, expected, "{name}");
            assert!(queries <= 30 && took_ms <= most_ms, "{name}: {queries} queries, {took_ms} ms");
            let (dates, queries, took_ms) = server.page(&newest, 1).await;
            assert_eq!((dates, queries, took_ms), (expected, 1, 0), "{name}");
        }
    }

    #[tokio::test]
    async fn a_page_that_no_quick_range_fills_is_read_from_everything_and_again_so() {
        // All datasets have one date; the whole takes 5 s.
        let (server, newest) = (Server::new(vec![86_400_000; 500_000], 100_000), Newest::default());
        assert_eq!(server.page(&newest, 1).await.0, [NOW_MS - 86_400_000; 2]);
        // One dataset belongs to the page.
        let (server, newest) =
            (Server::new((0..300_000).map(|n| n * 10_000).collect(), 100_000), Newest::default());
        let (dates, _, took_ms) = server.page(&newest, 1_000_000).await;
        assert_eq!(dates, [NOW_MS]);
        assert!(took_ms < RANGES_MS + 1_000 + 3_000, "{took_ms}");
        let (dates, queries, took_ms) = server.page(&newest, 1_000_000).await;
        assert_eq!((dates, queries, took_ms), (vec![NOW_MS], 1, 3_000));
    }

    #[test]
    fn only_lists_of_the_newest_are_read_by_ranges() {
        let of = |sort: Document, after: Option<&Cursor>| {
            Query::of(&doc! {}, &doc! {}, &Page { sort, ..newest_first() }, after).is_some()
        };
        assert!(of(doc! {"createdAt": -1, "_id": -1}, None));
        assert!(!of(doc! {"createdAt": 1}, None));
        assert!(!of(doc! {"datasetName": -1}, None));
        assert!(!of(doc! {}, None));
        let dateless = Cursor::of(&doc! {"_id": "a"}, &newest_first().sort).unwrap();
        assert!(!of(newest_first().sort, Some(&dateless)), "dates are over");
        for client in [doc! {"pid": "p"}, doc! {"$and": [{"_id": "p"}]}, doc! {GRAMS: {"$all": [1]}}] {
            assert_eq!(Query::of(&doc! {}, &client, &newest_first(), None), None);
        }
        let long = doc! {"owner": "x".repeat(QUERY_BYTES_MAX)};
        assert_eq!(Query::of(&doc! {}, &long, &newest_first(), None), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let newest = Newest::default();
        for n in 0..3_000 {
            newest.range(&query(doc! {"size": n}, None), NOW_MS);
        }
        assert!(newest.queries().len() <= QUERIES_MAX);
    }
}
