//! Reads pages of the newest datasets by ranges of dates, if the server takes long for them.
//!
//! A server that ends a scan at its limit answers a page at once. Another one reads and sorts all datasets that the conditions admit. Once it
//! has taken too long for a query, the pages of that query are read in a range that ends at the newest date, or at the cursor. The range
//! grows until it fills the page. A full page is exact: no older dataset belongs to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::{DateTime, Document, doc};

use crate::query::page::{Cursor, KEYSET, Page};

/// The maximum number of queries in memory, and of the bytes of each.
const QUERIES_MAX: usize = 1_000;
const QUERY_BYTES_MAX: usize = 4_096;
/// The first range of a query, in milliseconds.
const SPAN_MS: i64 = 60_000;
/// The growth of a range that does not fill the page.
const GROWTH: i64 = 8;
/// A range of 400 years has no lower bound.
const EVER_MS: i64 = 400 * 366 * 86_400_000;

/// The slow queries, with the range of the last page.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<HashMap<Vec<u8>, Last>>);

/// The range of the last page of a slow query.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Last {
    /// No page is known.
    Unknown,
    /// A first page ended at this date.
    End(DateTime),
    /// A page after a cursor had this length, in milliseconds.
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
pub(super) struct Range {
    from_ms: i64,
    span_ms: i64,
    /// The longest range that did not fill the page.
    short_ms: i64,
    /// The shortest range that took too long.
    slow_ms: Option<i64>,
}

impl Query {
    /// `None` if the page is in another order, or comes after the last dataset with a date. `client` is without the condition of the cursor.
    pub(super) fn of(
        access: &Document,
        client: &Document,
        page: &Page,
        after: Option<&Cursor>,
    ) -> Option<Self> {
        let (name, direction) = page.sort.iter().next()?;
        let field = KEYSET.into_iter().find(|known| known == name && direction.as_i32() == Some(-1))?;
        let from = after.map(Cursor::at);
        if from == Some(None) {
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
    pub(super) fn within(&self, client: &Document, range: &Range) -> Document {
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

    /// Whether these documents fill the page.
    pub(super) fn is_full(&self, documents: &[Document]) -> bool {
        documents.len() as u64 == self.limit
    }
}

impl Range {
    /// The date at which the range ends; `None` if it has no end.
    fn end(&self) -> Option<DateTime> {
        (self.span_ms < EVER_MS).then(|| DateTime::from_millis(self.from_ms.saturating_sub(self.span_ms)))
    }

    /// Whether every dataset is in the range.
    pub(super) fn is_all(&self) -> bool {
        self.end().is_none()
    }

    /// A longer range: this one did not fill the page.
    pub(super) fn grow(&mut self) {
        self.short_ms = self.short_ms.max(self.span_ms);
        self.span_ms = match self.slow_ms {
            None => self.span_ms.saturating_mul(GROWTH),
            Some(slow_ms) => middle(self.short_ms, slow_ms),
        };
    }

    /// A shorter range: this one took too long. Returns `false` if a range in between gains nothing.
    pub(super) fn shrink(&mut self) -> bool {
        let slow_ms = self.slow_ms.map_or(self.span_ms, |slow_ms| slow_ms.min(self.span_ms));
        (self.slow_ms, self.span_ms) = (Some(slow_ms), middle(self.short_ms, slow_ms));
        self.span_ms > self.short_ms && slow_ms - self.short_ms > slow_ms / 16
    }
}

/// The geometric middle of two spans.
fn middle(short_ms: i64, long_ms: i64) -> i64 {
    ((short_ms.max(1) as f64 * long_ms as f64).sqrt() as i64).clamp(short_ms, long_ms)
}

impl Newest {
    /// Whether the server takes long for a query.
    pub(super) fn is_slow(&self, query: &Query) -> bool {
        self.queries().contains_key(&query.key)
    }

    /// Notes that the server takes long for a query, and returns the range of its page.
    pub(super) fn range(&self, query: &Query, now_ms: i64) -> Range {
        let mut queries = self.queries();
        if queries.len() >= QUERIES_MAX && !queries.contains_key(&query.key) {
            queries.clear();
        }
        let last = *queries.entry(query.key.clone()).or_insert(Last::Unknown);
        let from_ms = query.from.map_or(now_ms, DateTime::timestamp_millis);
        let span_ms = match last {
            Last::Unknown => SPAN_MS,
            Last::End(end) => from_ms.saturating_sub(end.timestamp_millis()).max(1),
            Last::Span(span_ms) => span_ms,
        };
        Range { from_ms, span_ms, short_ms: 0, slow_ms: None }
    }

    /// Keeps the range of a full page for the next one.
    pub(super) fn remember(&self, query: &Query, range: &Range, documents: &[Document]) {
        let last = documents.last().and_then(|last| last.get_datetime(query.field).ok().copied());
        // A projection may leave the date out.
        let Some(end) = last.or(range.end()) else { return };
        let last = match query.from {
            None => Last::End(end),
            Some(from) => Last::Span((from.timestamp_millis() - end.timestamp_millis()).max(1)),
        };
        if let Some(known) = self.queries().get_mut(&query.key) {
            *known = last;
        }
    }

    fn queries(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Last>> {
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
        assert!(!newest.is_slow(&first));
        let range = newest.range(&first, NOW_MS);
        assert!(newest.is_slow(&first) && !newest.is_slow(&query(doc! {}, None)));
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
    }

    #[test]
    fn a_range_grows_to_everything_and_is_halved_between_short_and_slow_ones() {
        let mut range = Newest::default().range(&query(doc! {}, None), NOW_MS);
        let mut steps = 0;
        while !range.is_all() {
            range.grow();
            steps += 1;
        }
        assert!(steps < 12, "{steps}");
        assert_eq!(query(doc! {}, None).within(&doc! {"a": 1}, &range), doc! {"a": 1});

        // Ranges below 7 days are short, and those above 8 days are slow.
        let (day_ms, mut steps) = (86_400_000, 0);
        let mut range = Newest::default().range(&query(doc! {}, None), NOW_MS);
        while !(7 * day_ms..=8 * day_ms).contains(&range.span_ms) {
            if range.span_ms < 7 * day_ms {
                range.grow();
            } else {
                assert!(range.shrink());
            }
            steps += 1;
        }
        assert!(steps < 14, "{steps}");
        while range.shrink() {
            steps += 1;
        }
        assert!(steps < 40, "all datasets have one date: {steps}");
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
