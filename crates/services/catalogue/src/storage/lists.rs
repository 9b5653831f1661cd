//! Lists and counts datasets.

use std::iter::once;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongodb::options::{AggregateOptions, Hint};
use serde_json::{Map, Value, json};

use super::cache::{Clock, Sized};
use super::merge::Merge;
use super::{Error, READ_MAX, Room, Store, indexes, newest, room};
use crate::documents::json;
use crate::documents::search::shown;
use crate::query::facets::{Facet, Facets};
use crate::query::page::{Cursor, Page};
use crate::query::{Find, under};

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The stored documents.
    pub documents: Vec<Document>,
    /// The cursor after the last document, if a cursor can page the list and the page is full.
    pub next: Option<Cursor>,
}

impl Store {
    /// The datasets of a query that the access part admits, from the start or after a cursor.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn list(
        &self,
        access: &Document,
        find: &Find,
        after: Option<&Cursor>,
        room: Room<'_>,
    ) -> Result<Listing, Error> {
        let mut page = find.page.clone();
        let mut client = find.filter.clone();
        if let Some(cursor) = after {
            client = doc! {"$and": [client, cursor.condition()]};
            (page.skip, page.sort) = (0, cursor.sort());
        }
        let find = &Find { page, ..find.clone() };
        let Some(query) = newest::Query::of(access, &client, &find.page) else {
            return self.unbounded(access, &client, find, room).await;
        };
        let taken = AtomicUsize::new(0);
        if let Some(end) = self.newest.end(&query) {
            let counted = |bytes: usize| {
                taken.fetch_add(bytes, Ordering::Relaxed);
                room(bytes)
            };
            let listing = self.unbounded(access, &query.bounded(&client, end), find, &counted).await?;
            if query.is_full(&listing.documents) {
                self.newest.remember(&query, &listing.documents);
                return Ok(listing);
            }
        }
        // The documents of a page that was not full are gone, so their room serves this page.
        let again = |bytes: usize| {
            let less = |left: usize| Some(left.saturating_sub(bytes));
            let spare = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or_default();
            room(bytes.saturating_sub(spare))
        };
        let listing = self.unbounded(access, &client, find, &again).await?;
        self.newest.remember(&query, &listing.documents);
        Ok(listing)
    }

    /// The datasets that meet the conditions of a client. `find` has the page and, without a cursor, the client's filter.
    async fn unbounded(
        &self,
        access: &Document,
        client: &Document,
        find: &Find,
        room: Room<'_>,
    ) -> Result<Listing, Error> {
        let page = &find.page;
        if let Some(field) = Cursor::field(&page.sort) {
            let merge = Merge { access, client, field, skip: page.skip, limit: page.limit };
            if let Some(branches) = merge.branches(&find.filter) {
                let merged = merge.read(self, &branches, find.projection.as_ref(), room).await?;
                let next = merged.last.and_then(|last| Cursor::of(&last, &page.sort));
                return Ok(Listing { documents: merged.documents, next });
            }
        }
        let documents = self.page(under(access, client), page, find.projection.as_ref(), room).await?;
        let last = documents.last().filter(|_| documents.len() as u64 == page.limit);
        let next = last.and_then(|last| Cursor::of(last, &page.sort));
        Ok(Listing { documents, next })
    }

    async fn page(
        &self,
        filter: Document,
        page: &Page,
        projection: Option<&Document>,
        room: Room<'_>,
    ) -> Result<Vec<Document>, Error> {
        // The bounds of a page fit into 63 bits.
        let request = self.datasets.find(filter).skip(page.skip).limit(page.limit as i64).max_time(READ_MAX);
        let mut request = request.projection(shown(projection));
        if !page.sort.is_empty() {
            request = request.sort(page.sort.clone());
        }
        room::read(request.await?, room).await
    }

    /// The number of datasets, counted up to `cap` if given. An answer that took long is kept for 30 s.
    ///
    /// # Errors
    /// The server failed.
    pub async fn count(
        &self,
        access: &Document,
        filter: &Document,
        cap: Option<u32>,
        clock: Clock<'_>,
    ) -> Result<u64, Error> {
        let mut stages = vec![doc! {"$match": under(access, filter)}];
        if let Some(cap) = cap {
            stages.push(doc! {"$limit": i64::from(cap.max(1))});
        }
        stages.push(doc! {"$group": {"_id": null, "count": {"$sum": 1}}});
        let key = doc! {"stages": stages.clone()};
        // Without a condition the server would read all documents, not an index.
        let is_all = access.is_empty() && filter.is_empty();
        let hint = is_all.then(|| Hint::Keys(doc! {"_id": 1}));
        let options = AggregateOptions::builder().hint(hint).max_time(READ_MAX).build();
        let count = async {
            let mut groups = self.datasets.aggregate(stages).with_options(options).await?;
            let count = groups.try_next().await?.map_or(0, |group| whole(&group, "count"));
            Ok(Sized { value: count, bytes: size_of::<u64>() })
        };
        Ok(self.counts.answer(&key, clock, count).await?.value)
    }

    /// The total and the facets, each from a query by itself. Answers that took long are kept for 30 s.
    ///
    /// # Errors
    /// The answer has no room, or the server failed.
    pub async fn facets(
        &self,
        access: &Document,
        facets: &Facets,
        clock: Clock<'_>,
        room: Room<'_>,
    ) -> Result<Value, Error> {
        let total = self.count(access, &facets.all, None, clock).await?;
        // One after the other, so that a request holds one connection of the pool.
        let mut buckets = Vec::with_capacity(facets.each.len());
        for facet in &facets.each {
            buckets.push(self.facet(access, facet, clock, room).await?);
        }
        let all = if total == 0 { json!([]) } else { json!([{"totalSets": total}]) };
        let names = facets.each.iter().map(|facet| facet.name.clone());
        let body: Map<String, Value> = once(("all".to_owned(), all)).chain(names.zip(buckets)).collect();
        Ok(json!([body]))
    }

    async fn facet(
        &self,
        access: &Document,
        facet: &Facet,
        clock: Clock<'_>,
        room: Room<'_>,
    ) -> Result<Value, Error> {
        let mut pipeline = facet.pipeline(access);
        if access.is_empty()
            && facet.filter.is_empty()
            && let Some(order) = facet.single().and_then(indexes::order)
        {
            // Without a condition the server would read all documents. In this order it reads the index of the field alone.
            pipeline[0] = doc! {"$sort": order};
        }
        let key = doc! {"stages": pipeline.clone()};
        let buckets = async {
            let buckets = self.datasets.aggregate(pipeline).max_time(READ_MAX).await?;
            let bytes = AtomicUsize::new(0);
            let counted = |more| {
                bytes.fetch_add(more, Ordering::Relaxed);
                room(more)
            };
            let buckets = room::read(buckets, &counted).await?;
            let value: Value = buckets.iter().map(|bucket| Value::from(json::object(bucket))).collect();
            Ok(Sized { value, bytes: bytes.into_inner() })
        };
        let buckets = self.facets.answer(&key, clock, buckets).await?;
        // The copy of a kept answer takes memory as well.
        room(buckets.bytes)?;
        Ok(buckets.value)
    }
}

/// A whole number of any type that the server returns; a negative one counts as 0.
pub(super) fn whole(document: &Document, name: &str) -> u64 {
    u64::try_from(signed(document, name)).unwrap_or(0)
}

/// A whole number of any type that the server returns, with its sign.
pub(super) fn signed(document: &Document, name: &str) -> i64 {
    match document.get(name) {
        Some(bson::Bson::Int32(number)) => i64::from(*number),
        Some(bson::Bson::Int64(number)) => *number,
        Some(bson::Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}
