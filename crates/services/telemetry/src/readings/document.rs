//! Stores one document per reading: `{_id: "sensor⇥time⇥event", t: time, m: {metric: value}}`.
//!
//! The `_id` follows from the reading, so a retry is a duplicate key. It sorts by sensor and time, so the index on `_id`
//! serves every query, and the collection has no other.

use bson::raw::cstr;
use bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mongodb::{Collection, Database};

use super::lookup::Lookup;
use super::range::{Cursor, Merge, Page, RangeQuery, Want};
use super::record::{create, insert, metrics, number, pairs};
use super::store::Stored;
use super::store::{Store, Written};
use super::tally::Tally;
use super::{Error, Fault, key};
use crate::reading::Reading;

const COLLECTION: &str = "readings";

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
        let order = sorted(readings);
        let encode = |(key, place): &(String, usize)| encode(key, &readings[*place]);
        let documents = order.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let outcomes = insert(&self.readings, &documents).await?;
        let mut written = vec![Ok(Stored::New); readings.len()];
        for ((_, place), outcome) in order.into_iter().zip(outcomes) {
            written[place] = outcome;
        }
        Ok(written)
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

/// The key and the index of each reading, sorted, so that index neighbours are inserted together. The first of several duplicates
/// stays first.
fn sorted(readings: &[Reading]) -> Vec<(String, usize)> {
    let mut order: Vec<_> = readings.iter().map(key::of).zip(0..).collect();
    order.sort_unstable();
    order
}

fn encode(key: &str, reading: &Reading) -> Result<RawDocumentBuf, bson::error::Error> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), key);
    document.append(cstr!("t"), DateTime::from_millis(reading.at_ms));
    document.append(cstr!("m"), metrics(reading)?);
    Ok(document)
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
    fn a_commit_is_inserted_in_index_order_and_the_first_duplicate_stays_first() {
        let reading = |sensor: &str, at_ms| Reading {
            sensor: sensor.into(),
            at_ms,
            event: None,
            metrics: vec![("m".into(), 1.0)],
        };
        let readings = [reading("b", 2), reading("a", 9), reading("b", 1), reading("a", 9), reading("a", 3)];
        let places: Vec<_> = sorted(&readings).into_iter().map(|(_, place)| place).collect();
        assert_eq!(places, [4, 1, 3, 2, 0]);
    }
}
