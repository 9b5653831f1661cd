//! Lists and counts datasets.

use std::iter::once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};
use mongodb::options::{AggregateOptions, Hint};
use serde_json::{Map, Value, json};

use super::cache::{Clock, Sized};
use super::merge::Merge;
use super::room::Reused;
use super::{Error, Listing, READ_MAX, Room, Store, indexes, is_slow, newest, room};
use crate::Refusal;
use crate::documents::json;
use crate::documents::search::shown;
use crate::query::facets::{Facet, Facets};
use crate::query::page::Cursor;
use crate::query::{Find, all, under};

/// The facets that a request computes at once.
const FACETS_AT_ONCE: usize = 4;
/// The maximum number of bytes of a facet.
const FACET_BYTES_MAX: usize = 4 << 20;

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
        clock: Clock<'_>,
        room: Room<'_>,
    ) -> Result<Listing, Error> {
        let mut page = find.page.clone();
        let mut client = find.filter.clone();
        if let Some(cursor) = after {
            client = all(vec![client, cursor.condition()]);
            (page.skip, page.sort) = (0, cursor.sort());
        }
        let find = &Find { page, ..find.clone() };
        let Some(query) = newest::Query::of(access, &find.filter, &find.page, after) else {
            return self.read(access, &client, find, (READ_MAX, room)).await;
        };
        let reused = Reused::new(room);
        let room = |bytes: usize| reused.take(bytes);
        if !self.plain_max.is_zero() && !self.newest.is_slow(&query, clock()) {
            match self.read(access, &client, find, (self.plain_max, &room)).await {
                Err(error) if is_slow(&error) => {}
                read => return read,
            }
        }
        let read = |within: Document, max_time| {
            // The documents of the query before are gone, so their room serves this one.
            reused.restart();
            let room = &room;
            async move { self.read(access, &within, find, (max_time, room)).await }
        };
        self.newest.page(&query, &client, clock, read).await
    }

    /// The datasets that meet the conditions of a client. `find` has the page and the client's filter without a cursor or a range.
    async fn read(
        &self,
        access: &Document,
        client: &Document,
        find: &Find,
        (max_time, room): (Duration, Room<'_>),
    ) -> Result<Listing, Error> {
        let page = &find.page;
        if let Some(field) = Cursor::field(&page.sort) {
            let merge = Merge { access, client, field, skip: page.skip, limit: page.limit, max_time };
            if let Some(branches) = merge.branches(&find.filter) {
                let merged = merge.read(self, &branches, find.projection.as_ref(), room).await?;
                let next = merged.last.and_then(|last| Cursor::of(&last, &page.sort));
                return Ok(Listing { documents: merged.documents, next });
            }
        }
        // The bounds of a page fit into 63 bits.
        let request = self.datasets.find(under(access, client)).skip(page.skip).limit(page.limit as i64);
        let mut request = request.max_time(max_time).projection(shown(find.projection.as_ref()));
        if !page.sort.is_empty() {
            request = request.sort(page.sort.clone());
        }
        let documents = room::read(request.await?, room).await?;
        let last = documents.last().filter(|_| documents.len() as u64 == page.limit);
        let next = last.and_then(|last| Cursor::of(last, &page.sort));
        Ok(Listing { documents, next })
    }

    /// The number of datasets, counted up to `cap` if given. An answer that took long is kept for some time.
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
        let datasets = self.datasets.clone();
        let count = move |max_time| {
            let options = AggregateOptions::builder().hint(hint.clone()).max_time(max_time).build();
            let (datasets, stages) = (datasets.clone(), stages.clone());
            async move {
                let mut groups = datasets.aggregate(stages).with_options(options).await?;
                let count = groups.try_next().await?.map_or(0, |group| whole(&group, "count"));
                Ok(Sized { value: count, bytes: size_of::<u64>() })
            }
        };
        Ok(self.counts.answer(&key, clock, count).await?.value)
    }

    /// The total and the facets, each from a query by itself. Answers that took long are kept for some time.
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
        let buckets: Vec<_> =
            facets.each.iter().map(|facet| self.facet(access, facet, clock, room)).collect();
        let buckets = stream::iter(buckets).buffered(FACETS_AT_ONCE).try_collect::<Vec<_>>();
        // If one of them takes longer than a request waits, the next request finds the answers of those that have begun.
        let (total, buckets) = try_join(self.count(access, &facets.all, None, clock), buckets).await?;
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
        let datasets = self.datasets.clone();
        let buckets = move |max_time| {
            let (datasets, pipeline) = (datasets.clone(), pipeline.clone());
            async move {
                let buckets = datasets.aggregate(pipeline).max_time(max_time).await?;
                let bytes = AtomicUsize::new(0);
                let counted = |more| match bytes.fetch_add(more, Ordering::Relaxed) + more {
                    0..=FACET_BYTES_MAX => Ok(()),
                    _ => Err(Refusal::TooLarge),
                };
                let buckets = room::read(buckets, &counted).await?;
                let value: Value = buckets.iter().map(|bucket| Value::from(json::object(bucket))).collect();
                Ok(Sized { value, bytes: bytes.into_inner() })
            }
        };
        let buckets = self.facets.answer(&key, clock, buckets).await?;
        // The copy of a kept answer takes memory.
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
