//! Stores one document per reading: `{_id: "sensor⇥time⇥event", t: time, m: {metric: value}}`.
//!
//! The `_id` follows from the reading, so a retry is a duplicate key. It sorts by sensor and time, so the index on `_id`
//! serves every query, and the collection has no other. Duplicates are looked up, and metrics that they lack are merged into them.

use std::collections::HashMap;

use bson::raw::cstr;
use bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use mongodb::{Collection, Database};

use super::lookup::Lookup;
use super::partial::{Before, Entry, Metrics, entries, missing, outcomes};
use super::range::{Cursor, Merge, Page, RangeQuery, Want};
use super::record::{Inserted, create, insert, merge, merge_command, metrics, number, one, pairs};
use super::store::Store;
use super::stored::Written;
use super::tally::Tally;
use super::{Error, Fault, key};
use crate::reading::Reading;

pub(super) const COLLECTION: &str = "readings";
/// The largest number of merges in flight.
const MERGES_MAX: usize = 8;

/// The design's collection.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    readings: Collection<RawDocumentBuf>,
}

impl Documents {
    /// Creates the collection, so that the first commit does not have to.
    pub(crate) async fn open(database: &Database) -> Result<Self, Error> {
        create(database.create_collection(COLLECTION)).await?;
        Ok(Documents { readings: database.collection(COLLECTION) })
    }

    async fn add(&self, readings: &[Reading]) -> Result<Vec<Written>, Fault> {
        let entries = sorted(readings);
        let documents = entries.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let inserted = insert(&self.readings, &documents).await?;
        let existed = |place: &usize| inserted[*place] == Ok(Inserted::Existed);
        let known: Vec<usize> = (0..entries.len()).filter(existed).collect();
        let mut before: Vec<Before> = inserted.into_iter().map(|one| one.map(|_| None)).collect();
        for (place, found) in self.merge_all(&entries, known).await? {
            before[place] = found.map(Some);
        }
        Ok(outcomes(readings, &entries, before))
    }

    /// Merges these entries into their stored readings. Returns the metrics that each had before.
    async fn merge_all(
        &self,
        entries: &[Entry<'_>],
        known: Vec<usize>,
    ) -> Result<Vec<(usize, Result<Metrics, Fault>)>, Fault> {
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let mut stored = self.stored(known.iter().map(|place| entries[*place].key.clone())).await?;
        let merges: Vec<_> = known
            .into_iter()
            .map(|place| {
                let entry = &entries[place];
                let found = stored.remove(&entry.key);
                async move { (place, self.merge(entry, found).await) }.boxed()
            })
            .collect();
        Ok(stream::iter(merges).buffer_unordered(MERGES_MAX).collect().await)
    }

    /// Merges an entry into its stored reading, and returns the metrics before. One command updates the reading and returns these
    /// metrics, so the merge is atomic.
    async fn merge(&self, entry: &Entry<'_>, found: Option<Metrics>) -> Result<Metrics, Fault> {
        let gone = || Fault::new("the stored reading was removed meanwhile");
        let found = found.ok_or_else(gone)?;
        let more = missing(&entry.reading.metrics, &found);
        if more.is_empty() {
            return Ok(found);
        }
        let before = self.readings.find_one_and_update(one(&entry.key), merge(&more)).await?;
        decode_metrics(&before.ok_or_else(gone)?)
    }

    /// The stored metrics of these keys.
    async fn stored(&self, keys: impl Iterator<Item = String>) -> Result<HashMap<String, Metrics>, Fault> {
        let mut cursor = look(keys.collect()).run_on_primary(&self.readings).await?;
        let mut stored = HashMap::new();
        while cursor.advance().await? {
            let found = cursor.current();
            stored.insert(found.get_str("_id")?.to_owned(), decode_metrics(found)?);
        }
        Ok(stored)
    }

    async fn add_up(&self, sensor: &str, tally: &mut Tally) -> Result<(), Error> {
        let mut cursor = window(sensor, tally.start_ms(), tally.end_ms()).run(&self.readings).await?;
        while cursor.advance().await? {
            let found = cursor.current();
            let at_ms = found.get_datetime("t")?.timestamp_millis();
            for metric in found.get_document("m")? {
                let (name, value) = metric?;
                tally.add(at_ms, name.as_str(), number(value)?)?;
            }
        }
        Ok(())
    }

    async fn page(&self, query: &RangeQuery) -> Result<Page, Error> {
        let mut cursor = page(query).run(&self.readings).await?;
        let mut merge = Merge::new(query);
        while cursor.advance().await? {
            let reading = decode(&query.sensor, cursor.current())?;
            let settled = merge.settle(reading.at_ms);
            merge.push(reading);
            if settled == Want::Nothing {
                break;
            }
        }
        Ok(merge.finish())
    }

    async fn last(&self, sensor: &str, since_ms: Option<i64>) -> Result<Option<Reading>, Error> {
        let mut cursor = last(sensor, since_ms).run(&self.readings).await?;
        match cursor.advance().await? {
            true => Ok(Some(decode(sensor, cursor.current())?)),
            false => Ok(None),
        }
    }
}

impl Store for Documents {
    fn write<'a>(&'a self, readings: &'a [Reading]) -> BoxFuture<'a, Result<Vec<Written>, Fault>> {
        self.add(readings).boxed()
    }

    fn tally<'a>(&'a self, sensor: &'a str, tally: &'a mut Tally) -> BoxFuture<'a, Result<(), Error>> {
        self.add_up(sensor, tally).boxed()
    }

    fn range<'a>(&'a self, query: &'a RangeQuery) -> BoxFuture<'a, Result<Page, Error>> {
        self.page(query).boxed()
    }

    fn latest<'a>(
        &'a self,
        sensor: &'a str,
        since_ms: Option<i64>,
    ) -> BoxFuture<'a, Result<Option<Reading>, Error>> {
        self.last(sensor, since_ms).boxed()
    }

    fn commands(&self, sensor: &str, from_ms: i64, to_ms: i64) -> Vec<(&'static str, Document)> {
        let query = RangeQuery { sensor: sensor.to_owned(), from_ms, to_ms, after: None, limit: 100 };
        let next = RangeQuery { after: Some(Cursor { at_ms: from_ms, event: None }), ..query.clone() };
        vec![
            ("statistics", window(sensor, from_ms, to_ms).command(COLLECTION)),
            ("range", page(&query).command(COLLECTION)),
            ("range, the next page", page(&next).command(COLLECTION)),
            ("latest", last(sensor, None).command(COLLECTION)),
            ("latest, from the last known time", last(sensor, Some(from_ms)).command(COLLECTION)),
            ("look at known readings", look(vec![key::from(sensor, from_ms)]).command(COLLECTION)),
            ("merge metrics into a known reading", merge_command(COLLECTION, &key::from(sensor, from_ms))),
        ]
    }
}

fn window(sensor: &str, from_ms: i64, to_ms: i64) -> Lookup {
    Lookup::new(doc! {"_id": {"$gte": key::from(sensor, from_ms), "$lt": key::from(sensor, to_ms)}})
        .projected(doc! {"_id": 0})
}

fn page(query: &RangeQuery) -> Lookup {
    let RangeQuery { sensor, to_ms, after, limit, .. } = query;
    let first = match after.as_ref().filter(|after| after.at_ms >= query.from_ms) {
        None => doc! {"$gte": key::from(sensor, query.from_ms)},
        Some(after) => doc! {"$gt": key::event(sensor, after.at_ms, after.event.as_deref())},
    };
    let mut bounds = first;
    bounds.insert("$lt", key::from(sensor, *to_ms));
    // One more reading than the page has shows whether another page follows.
    Lookup::new(doc! {"_id": bounds}).sorted(doc! {"_id": 1}).limited(limit + 1)
}

fn last(sensor: &str, since_ms: Option<i64>) -> Lookup {
    let least = key::from(sensor, since_ms.unwrap_or(i64::MIN));
    Lookup::new(doc! {"_id": {"$gte": least, "$lt": key::end(sensor)}}).sorted(doc! {"_id": -1}).limited(1)
}

fn look(keys: Vec<String>) -> Lookup {
    Lookup::new(doc! {"_id": {"$in": keys}}).projected(doc! {"m": 1})
}

/// The entries of a commit, sorted, so that index neighbours are inserted together.
fn sorted(readings: &[Reading]) -> Vec<Entry<'_>> {
    let mut entries = entries(readings);
    entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    entries
}

fn encode(entry: &Entry<'_>) -> Result<RawDocumentBuf, bson::error::Error> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), entry.key.as_str());
    document.append(cstr!("t"), DateTime::from_millis(entry.reading.at_ms));
    document.append(cstr!("m"), metrics(&entry.reading.metrics)?);
    Ok(document)
}

fn decode_metrics(found: &RawDocument) -> Result<Metrics, Fault> {
    pairs(found.get_document("m")?).map_err(|error| Fault::new(error.to_string()))
}

fn decode(sensor: &str, found: &RawDocument) -> Result<Reading, Error> {
    // A key with an event has two tabs; a name has none.
    let event = found.get_str("_id")?.splitn(3, '\t').nth(2).map(str::to_owned);
    let at_ms = found.get_datetime("t")?.timestamp_millis();
    Ok(Reading { sensor: sensor.to_owned(), at_ms, event, metrics: pairs(found.get_document("m")?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_inserted_in_index_order() {
        let reading = |sensor: &str, at_ms| Reading {
            sensor: sensor.into(),
            at_ms,
            event: None,
            metrics: vec![("m".into(), 1.0)],
        };
        let readings = [reading("b", 2), reading("a", 9), reading("b", 1), reading("a", 9), reading("a", 3)];
        let order =
            sorted(&readings).into_iter().map(|entry| (entry.reading.sensor.clone(), entry.reading.at_ms));
        assert!(
            order
                .eq([("a", 3), ("a", 9), ("b", 1), ("b", 2)]
                    .map(|(sensor, at_ms)| (sensor.to_owned(), at_ms)))
        );
    }
}
