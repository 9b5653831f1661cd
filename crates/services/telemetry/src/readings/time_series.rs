//! Stores readings in a time-series collection `{t: time, s: sensor, e: event, m: {metric: value}}`, and their keys in
//! another.
//!
//! Time-series collections have no unique index and no transactions, so idempotence costs a second write for each reading. The
//! key goes into an ordinary collection first, and the reading follows only if the key is new. A known key does not prove that
//! the reading exists, because the process may have stopped between the two writes. Then the store queries the series and
//! inserts a missing reading. Two processes can both insert it, so readers drop duplicates, and every statistic stays exact.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bson::raw::cstr;
use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use mongodb::options::TimeseriesOptions;
use mongodb::{Collection, Database};

use super::lookup::Lookup;
use super::range::{Merge, Page, RangeQuery, Want};
use super::record::{create, insert, metrics, number, pairs};
use super::store::Stored;
use super::store::{Store, Written, repetitions};
use super::tally::Tally;
use super::{Error, Fault, key};
use crate::reading::Reading;

const COLLECTION: &str = "reading_series";
const KEYS: &str = "reading_keys";
/// The longest time span of a server bucket; the server closes it earlier at 1,000 readings.
const BUCKET_SPAN: Duration = Duration::from_secs(3600);
/// Sensors queried concurrently for retried readings.
const LOOKS_MAX: usize = 8;

/// The design's two collections.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    readings: Collection<RawDocumentBuf>,
    keys: Collection<RawDocumentBuf>,
}

impl Series {
    /// Creates the collections and the index by sensor and time, which servers before 6.3 do not create by default.
    pub(crate) async fn open(database: &Database) -> Result<Self, Error> {
        let series = TimeseriesOptions::builder()
            .time_field("t".to_owned())
            .meta_field("s".to_owned())
            .bucket_max_span(BUCKET_SPAN)
            .bucket_rounding(BUCKET_SPAN)
            .build();
        create(database.create_collection(COLLECTION).timeseries(series)).await?;
        create(database.create_collection(KEYS)).await?;
        let readings = database.collection::<RawDocumentBuf>(COLLECTION);
        let index = mongodb::IndexModel::builder().keys(doc! {"s": 1, "t": 1}).build();
        readings.create_index(index).await?;
        Ok(Series { readings, keys: database.collection(KEYS) })
    }

    async fn add(&self, readings: &[Reading]) -> Result<Vec<Written>, Fault> {
        let keys: Vec<_> = readings.iter().map(key::of).collect();
        let repeats = repetitions(&keys);
        let firsts: Vec<usize> = (0..readings.len()).filter(|place| repeats[*place].is_none()).collect();
        let mut written = vec![Ok(Stored::Known); readings.len()];
        for (place, outcome) in firsts.iter().zip(self.claim(&keys, &firsts).await?) {
            written[*place] = outcome;
        }
        let mut missing = self.missing(readings, &keys, &mut written, &firsts).await?;
        // Sorted by sensor and time, the readings fill fewer server buckets.
        missing.sort_unstable_by(|one, other| keys[*one].cmp(&keys[*other]));
        if !missing.is_empty() {
            let documents =
                missing.iter().map(|place| encode(&readings[*place])).collect::<Result<Vec<_>, _>>()?;
            for (place, outcome) in missing.iter().zip(insert(&self.readings, &documents).await?) {
                written[*place] = outcome;
            }
        }
        for (place, first) in repeats.iter().enumerate().filter_map(|(place, first)| Some((place, (*first)?)))
        {
            written[place] = written[first].clone().map(|_| Stored::Known);
        }
        Ok(written)
    }

    /// Inserts the keys of these readings.
    async fn claim(&self, keys: &[String], places: &[usize]) -> Result<Vec<Written>, Fault> {
        let document = |place: &usize| {
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("_id"), keys[*place].as_str());
            document
        };
        insert(&self.keys, &places.iter().map(document).collect::<Vec<_>>()).await
    }

    /// The readings with a new key, and those with a known key that the series lacks.
    async fn missing(
        &self,
        readings: &[Reading],
        keys: &[String],
        written: &mut [Written],
        firsts: &[usize],
    ) -> Result<Vec<usize>, Fault> {
        let is = |place: &usize, stored| written[*place] == Ok(stored);
        let mut missing: Vec<_> = firsts.iter().copied().filter(|place| is(place, Stored::New)).collect();
        let known: Vec<_> = firsts.iter().copied().filter(|place| is(place, Stored::Known)).collect();
        let present = self.present(known.iter().map(|place| &readings[*place])).await?;
        let (there, absent): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|place| present.contains(&keys[*place]));
        if let Some(place) = there.first() {
            // A known key must be as durable as a written one: a repeated insert waits for the write concern.
            self.claim(keys, &[*place]).await?;
        }
        missing.extend(absent);
        Ok(missing)
    }

    /// The keys of those readings that the series has.
    async fn present(&self, readings: impl Iterator<Item = &Reading>) -> Result<HashSet<String>, Fault> {
        let mut times: BTreeMap<&str, Vec<Bson>> = BTreeMap::new();
        for reading in readings {
            times.entry(&reading.sensor).or_default().push(DateTime::from_millis(reading.at_ms).into());
        }
        let looks: Vec<_> =
            times.into_iter().map(|(sensor, times)| self.keys_at(sensor, times).boxed()).collect();
        let found: Vec<Vec<String>> = stream::iter(looks).buffer_unordered(LOOKS_MAX).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn keys_at(&self, sensor: &str, times: Vec<Bson>) -> Result<Vec<String>, Fault> {
        let mut cursor = look(sensor, times).run_on_primary(&self.readings).await?;
        let mut keys = Vec::new();
        while cursor.advance().await? {
            let found = cursor.current();
            keys.push(key::event(sensor, found.get_datetime("t")?.timestamp_millis(), event(found)?));
        }
        Ok(keys)
    }

    async fn add_up(&self, sensor: &str, tally: &mut Tally) -> Result<(), Error> {
        let mut cursor = window(sensor, tally.start_ms(), tally.end_ms()).run(&self.readings).await?;
        // Duplicates have the same time, so they are close together.
        let (mut now_ms, mut events) = (i64::MIN, HashSet::new());
        while cursor.advance().await? {
            let found = cursor.current();
            let at_ms = found.get_datetime("t")?.timestamp_millis();
            if at_ms != now_ms {
                now_ms = at_ms;
                events.clear();
            }
            if !events.insert(event(found)?.map(str::to_owned)) {
                continue;
            }
            for metric in found.get_document("m")? {
                let (name, value) = metric?;
                tally.add(at_ms, name.as_str(), number(value)?)?;
            }
        }
        Ok(())
    }

    async fn page(&self, query: &RangeQuery) -> Result<Page, Error> {
        let mut cursor = window(&query.sensor, query.start_ms(), query.to_ms).run(&self.readings).await?;
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

    /// Finds the last time, then the last event of that time.
    async fn last(&self, sensor: &str, since_ms: Option<i64>) -> Result<Option<Reading>, Error> {
        let mut cursor = last(sensor, since_ms).run(&self.readings).await?;
        if !cursor.advance().await? {
            return Ok(None);
        }
        let time = cursor.current().get_datetime("t")?;
        let mut cursor = at(sensor, vec![time.into()]).run(&self.readings).await?;
        let mut found: Option<Reading> = None;
        while cursor.advance().await? {
            let reading = decode(sensor, cursor.current())?;
            found = found.into_iter().chain([reading]).max_by(|one, other| one.event.cmp(&other.event));
        }
        Ok(found)
    }
}

impl Store for Series {
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
        let moment = DateTime::from_millis(from_ms);
        vec![
            ("statistics and range", window(sensor, from_ms, to_ms).command(COLLECTION)),
            ("latest", last(sensor, None).command(COLLECTION)),
            ("latest, from the last known time", last(sensor, Some(from_ms)).command(COLLECTION)),
            ("latest, the events at that time", at(sensor, vec![moment.into()]).command(COLLECTION)),
            ("look", look(sensor, vec![moment.into()]).command(COLLECTION)),
        ]
    }
}

fn window(sensor: &str, from_ms: i64, to_ms: i64) -> Lookup {
    let (from, to) = (DateTime::from_millis(from_ms), DateTime::from_millis(to_ms));
    Lookup::new(doc! {"s": sensor, "t": {"$gte": from, "$lt": to}})
        .sorted(doc! {"t": 1})
        .projected(doc! {"_id": 0, "t": 1, "e": 1, "m": 1})
}

/// The sort matches the index. Without it some servers read all buckets to find an order.
fn at(sensor: &str, times: Vec<Bson>) -> Lookup {
    Lookup::new(doc! {"s": sensor, "t": {"$in": times}}).sorted(doc! {"t": 1})
}

fn look(sensor: &str, times: Vec<Bson>) -> Lookup {
    at(sensor, times).projected(doc! {"t": 1, "e": 1})
}

fn last(sensor: &str, since_ms: Option<i64>) -> Lookup {
    let mut filter = doc! {"s": sensor};
    if let Some(since_ms) = since_ms {
        filter.insert("t", doc! {"$gte": DateTime::from_millis(since_ms)});
    }
    Lookup::new(filter).sorted(doc! {"t": -1}).limited(1)
}

fn encode(reading: &Reading) -> Result<RawDocumentBuf, bson::error::Error> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("t"), DateTime::from_millis(reading.at_ms));
    document.append(cstr!("s"), reading.sensor.as_str());
    if let Some(event) = &reading.event {
        document.append(cstr!("e"), event.as_str());
    }
    document.append(cstr!("m"), metrics(reading)?);
    Ok(document)
}

fn event(found: &RawDocument) -> Result<Option<&str>, bson::error::Error> {
    Ok(found.get("e")?.and_then(|event| event.as_str()))
}

fn decode(sensor: &str, found: &RawDocument) -> Result<Reading, Error> {
    let at_ms = found.get_datetime("t")?.timestamp_millis();
    let event = event(found)?.map(str::to_owned);
    Ok(Reading { sensor: sensor.to_owned(), at_ms, event, metrics: pairs(found.get_document("m")?)? })
}
