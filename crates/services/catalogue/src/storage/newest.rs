//! Remembers where pages of the newest datasets ended.
//!
//! The next page of the same query reads only the datasets up to that date. If it is full, no older dataset belongs to it, so it is exact
//! whatever has changed. Otherwise the query is sent without the bound. A server that stops a scan at its limit gains nothing from the bound;
//! another one reads a page of a million datasets as fast as a page of a thousand.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bson::{Bson, DateTime, Document, doc};

use crate::documents::search::GRAMS;
use crate::query::page::{KEYSET, Page};

/// The maximum number of queries in memory, and of the bytes of each.
const QUERIES_MAX: usize = 1_000;
const QUERY_BYTES_MAX: usize = 4_096;
/// Conditions on these fields leave few datasets, which the server finds by their index.
const SELECTIVE: [&str; 3] = ["_id", "pid", GRAMS];

/// The dates at which the last pages of queries ended.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<HashMap<Vec<u8>, DateTime>>);

/// A page of the newest datasets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    key: Vec<u8>,
    field: &'static str,
    limit: u64,
}

impl Query {
    /// `None` if the page is in another order, or if its conditions leave few datasets.
    pub(super) fn of(access: &Document, client: &Document, page: &Page) -> Option<Self> {
        let (name, direction) = page.sort.iter().next()?;
        let field = KEYSET.into_iter().find(|known| known == name && *direction == Bson::Int32(-1))?;
        if SELECTIVE.iter().any(|field| names(client, field)) {
            return None;
        }
        let (skip, limit) = (page.skip as i64, page.limit as i64);
        let query =
            doc! {"access": access, "client": client, "sort": &page.sort, "skip": skip, "limit": limit};
        let key = query.to_vec().ok().filter(|key| key.len() <= QUERY_BYTES_MAX)?;
        Some(Self { key, field, limit: page.limit })
    }

    /// The condition of the client with the bound. The bound comes first: a server may choose its index by the first condition.
    pub(super) fn bounded(&self, client: &Document, end: DateTime) -> Document {
        let mut bounded = doc! {self.field: {"$gte": end}};
        if !client.is_empty() {
            bounded.insert("$and", vec![client.clone()]);
        }
        bounded
    }

    /// Whether these documents fill the page.
    pub(super) fn is_full(&self, documents: &[Document]) -> bool {
        documents.len() as u64 == self.limit
    }
}

impl Newest {
    /// The date at which the last page of a query ended.
    pub(super) fn end(&self, query: &Query) -> Option<DateTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&query.key).copied()
    }

    /// Remembers the date of the last document of a full page. A page whose projection lacks the date changes nothing.
    pub(super) fn remember(&self, query: &Query, documents: &[Document]) {
        let end = documents.last().and_then(|last| last.get_datetime(query.field).ok().copied());
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() >= QUERIES_MAX && !ends.contains_key(&query.key) {
            ends.clear();
        }
        match end {
            _ if !query.is_full(documents) => _ = ends.remove(&query.key),
            Some(end) => _ = ends.insert(query.key.clone(), end),
            None => {}
        }
    }
}

/// Whether a filter tests a field at any depth.
pub(super) fn names(filter: &Document, field: &str) -> bool {
    filter.iter().any(|(name, value)| {
        let inner = |value: &Bson| value.as_document().is_some_and(|inner| names(inner, field));
        name == field || inner(value) || value.as_array().is_some_and(|items| items.iter().any(inner))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest_first() -> Page {
        Page { skip: 0, limit: 2, sort: doc! {"creationTime": -1} }
    }

    fn dataset(ms: i64) -> Document {
        doc! {"creationTime": DateTime::from_millis(ms)}
    }

    #[test]
    fn the_end_of_a_full_page_bounds_the_next_one_of_the_same_query() {
        let newest = Newest::default();
        let query = Query::of(&doc! {"isPublished": true}, &doc! {"type": "raw"}, &newest_first()).unwrap();
        assert_eq!(newest.end(&query), None);
        newest.remember(&query, &[dataset(9), dataset(7)]);
        let end = newest.end(&query).unwrap();
        let expected = doc! {"creationTime": {"$gte": DateTime::from_millis(7)}, "$and": [{"type": "raw"}]};
        assert_eq!(query.bounded(&doc! {"type": "raw"}, end), expected);
        let other = Query::of(&doc! {}, &doc! {"type": "raw"}, &newest_first()).unwrap();
        assert_eq!(newest.end(&other), None);
        newest.remember(&query, &[doc! {"_id": "a"}, doc! {"_id": "b"}]);
        assert_eq!(newest.end(&query), Some(end), "a projection without the date tells nothing");
        newest.remember(&query, &[dataset(9)]);
        assert_eq!(newest.end(&query), None, "a page that is not full has no end");
    }

    #[test]
    fn only_lists_of_the_newest_that_admit_many_datasets_are_bounded() {
        let of = |client: Document, sort: Document| {
            Query::of(&doc! {}, &client, &Page { sort, ..newest_first() }).is_some()
        };
        assert!(of(doc! {}, doc! {"createdAt": -1, "_id": -1}));
        assert!(!of(doc! {}, doc! {"createdAt": 1}));
        assert!(!of(doc! {}, doc! {"datasetName": -1}));
        assert!(!of(doc! {}, doc! {}));
        for client in [doc! {"pid": "p"}, doc! {"$and": [{"_id": "p"}]}, doc! {GRAMS: {"$all": [1]}}] {
            assert!(!of(client, doc! {"createdAt": -1}));
        }
        assert!(!of(doc! {"owner": "x".repeat(QUERY_BYTES_MAX)}, doc! {"createdAt": -1}));
    }

    #[test]
    fn the_memory_is_bounded() {
        let newest = Newest::default();
        for n in 0..3_000 {
            let query = Query::of(&doc! {}, &doc! {"size": n}, &newest_first()).unwrap();
            newest.remember(&query, &[dataset(2), dataset(1)]);
        }
        assert!(newest.0.lock().unwrap().len() <= QUERIES_MAX);
    }
}
