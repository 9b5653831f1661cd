//! Stores readings in a time-series collection `{t: time, s: sensor, e: event, m: {metric: value}}`, and their keys in
//! another.
//!
//! Time-series collections have no unique index and no transactions, so idempotence costs a second write for each reading. The
//! key goes into an ordinary collection first, and the reading follows only if the key is new. A known key does not prove that
//! the reading exists, because the process may have stopped between the two writes. Then the store queries the series and
//! inserts a missing reading. Two processes can both insert it, so readers drop duplicates, and every statistic stays exact.
//!
//! A measurement cannot be updated. Metrics that a known reading lacks become a further measurement with the same time and event,
//! which readers merge. The document of the key records these metrics, so that two processes add the same values.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bson::raw::cstr;
use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use mongodb::options::{ReturnDocument, TimeseriesOptions};
use mongodb::{Collection, Database};

use super::lookup::Lookup;
use super::partial::{Before, Entry, Metrics, add, entries, missing, outcomes};
use super::range::{Merge, Page, RangeQuery, Want};
use super::record::{Inserted, create, insert, merge, merge_command, metrics, number, one, pairs};
use super::store::Store;
use super::stored::Written;
use super::tally::Tally;
use super::{Error, Fault, key};
use crate::reading::Reading;

pub(super) const COLLECTION: &str = "reading_series";
const KEYS: &str = "reading_keys";
/// The longest time span of a server bucket; the server closes it earlier at 1,000 readings.
const BUCKET_SPAN: Duration = Duration::from_secs(3600);
/// The largest number of concurrent queries, or of concurrent updates of keys, for retried readings.
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
        let entries = entries(readings);
        let claimed = self.claim(entries.iter()).await?;
        let existed = |place: &usize| claimed[*place] == Ok(Inserted::Existed);
        let known: Vec<usize> = (0..entries.len()).filter(existed).collect();
        let mut before: Vec<Before> = claimed.into_iter().map(|one| one.map(|_| None)).collect();
        for (place, found) in self.stored(&entries, &known).await? {
            before[place] = Ok(Some(found));
        }
        if let Some(place) = known.iter().find(|place| matches!(before[**place], Ok(Some(_)))) {
            // A known key must be as durable as a written one: a repeated insert waits for the write concern.
            self.claim(std::iter::once(&entries[*place])).await?;
        }
        self.insert_missing(&entries, &mut before).await?;
        Ok(outcomes(readings, &entries, before))
    }

    /// Inserts the keys of these entries.
    async fn claim<'e, 'r: 'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry<'r>>,
    ) -> Result<Vec<Result<Inserted, Fault>>, Fault> {
        let document = |entry: &Entry<'_>| {
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("_id"), entry.key.as_str());
            document
        };
        insert(&self.keys, &entries.map(document).collect::<Vec<_>>()).await
    }

    /// The stored metrics of the known entries, as far as the series has them.
    async fn stored(&self, entries: &[Entry<'_>], known: &[usize]) -> Result<Vec<(usize, Metrics)>, Fault> {
        let mut times: BTreeMap<&str, Vec<Bson>> = BTreeMap::new();
        for place in known {
            let reading = &entries[*place].reading;
            times.entry(&reading.sensor).or_default().push(DateTime::from_millis(reading.at_ms).into());
        }
        let looks: Vec<_> =
            times.into_iter().map(|(sensor, times)| self.stored_at(sensor, times).boxed()).collect();
        let found: Vec<_> = stream::iter(looks).buffer_unordered(LOOKS_MAX).try_collect().await?;
        let mut found: HashMap<_, _> = found.into_iter().flatten().collect();
        let of = |place: &usize| Some((*place, found.remove(&entries[*place].key)?));
        Ok(known.iter().filter_map(of).collect())
    }

    /// The readings of a sensor at these times: key and metrics.
    async fn stored_at(&self, sensor: &str, times: Vec<Bson>) -> Result<HashMap<String, Metrics>, Fault> {
        let mut cursor = look(sensor, times).run_on_primary(&self.readings).await?;
        let mut stored: HashMap<String, Metrics> = HashMap::new();
        while cursor.advance().await? {
            let found = cursor.current();
            let key = key::event(sensor, found.get_datetime("t")?.timestamp_millis(), event(found)?);
            let metrics = pairs(found.get_document("m")?).map_err(|error| Fault::new(error.to_string()))?;
            let all = stored.entry(key).or_default();
            let more = missing(&metrics, all);
            add(all, more);
        }
        Ok(stored)
    }

    /// Inserts new readings, and the missing metrics of known ones.
    async fn insert_missing(&self, entries: &[Entry<'_>], before: &mut [Before]) -> Result<(), Fault> {
        let mut parts = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            let more = match &before[place] {
                Ok(None) => entry.reading.metrics.clone(),
                Ok(Some(stored)) => missing(&entry.reading.metrics, stored),
                Err(_) => continue,
            };
            if !more.is_empty() {
                parts.push((place, more));
            }
        }
        let is_known = |(place, _): &&(usize, Metrics)| matches!(before[*place], Ok(Some(_)));
        let known = parts.iter().filter(is_known);
        let asked: Vec<_> =
            known.map(|(place, more)| self.agree(*place, &entries[*place].key, more).boxed()).collect();
        let agreed: HashMap<usize, Metrics> =
            stream::iter(asked).buffer_unordered(LOOKS_MAX).try_collect().await?;
        for (place, more) in &mut parts {
            if let (Some(agreed), Ok(Some(stored))) = (agreed.get(place), &mut before[*place]) {
                // Another process has added these at the same moment.
                add(stored, agreed.iter().filter(|metric| !more.contains(metric)).cloned().collect());
                more.clone_from(agreed);
            }
        }
        // Sorted by sensor and time, the readings fill fewer server buckets.
        parts.sort_unstable_by(|(one, _), (other, _)| entries[*one].key.cmp(&entries[*other].key));
        let encode = |(place, more): &(usize, Metrics)| encode(&entries[*place].reading, more);
        let documents = parts.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        for ((place, _), inserted) in parts.iter().zip(insert(&self.readings, &documents).await?) {
            if let Err(fault) = inserted {
                before[*place] = Err(fault);
            }
        }
        Ok(())
    }

    /// Records metrics that a known reading lacks with its key. Returns the recorded values: the first of each metric.
    async fn agree(&self, place: usize, key: &str, more: &Metrics) -> Result<(usize, Metrics), Fault> {
        let agreed = self.keys.find_one_and_update(one(key), merge(more));
        let agreed = agreed.return_document(ReturnDocument::After).await?;
        let agreed = agreed.ok_or_else(|| Fault::new("the key of a reading was removed meanwhile"))?;
        let all = pairs(agreed.get_document("m")?).map_err(|error| Fault::new(error.to_string()))?;
        let is_asked = |(name, _): &(String, f64)| more.iter().any(|(asked, _)| asked == name);
        Ok((place, all.into_iter().filter(is_asked).collect()))
    }

    async fn add_up(&self, sensor: &str, tally: &mut Tally) -> Result<(), Error> {
        let mut cursor = window(sensor, tally.start_ms(), tally.end_ms()).run(&self.readings).await?;
        let mut twins = Twins::default();
        while cursor.advance().await? {
            let found = cursor.current();
            let at_ms = found.get_datetime("t")?.timestamp_millis();
            let metrics = found.get_document("m")?;
            let earlier = twins.at(at_ms, event(found)?);
            for metric in metrics {
                let (name, value) = metric?;
                if !earlier.iter().any(|it| matches!(it.get(name.as_str()), Ok(Some(_)))) {
                    tally.add(at_ms, name.as_str(), number(value)?)?;
                }
            }
            earlier.push(metrics.to_owned());
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
            found = Some(match found {
                Some(mut kept) if kept.event == reading.event => {
                    let more = missing(&reading.metrics, &kept.metrics);
                    add(&mut kept.metrics, more);
                    kept
                }
                Some(kept) if kept.event > reading.event => kept,
                _ => reading,
            });
        }
        Ok(found)
    }
}

/// The metrics that were read for each event of one time. Measurements of one time and event are close together.
#[derive(Default)]
struct Twins {
    at_ms: i64,
    of_event: HashMap<Option<String>, Vec<RawDocumentBuf>>,
}

impl Twins {
    /// The earlier metrics of an event. A new time clears all earlier metrics.
    fn at(&mut self, at_ms: i64, event: Option<&str>) -> &mut Vec<RawDocumentBuf> {
        if at_ms != self.at_ms {
            self.at_ms = at_ms;
            self.of_event.clear();
        }
        self.of_event.entry(event.map(str::to_owned)).or_default()
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
            ("merge metrics into a known reading", merge_command(KEYS, &key::from(sensor, from_ms))),
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
    at(sensor, times).projected(doc! {"t": 1, "e": 1, "m": 1})
}

fn last(sensor: &str, since_ms: Option<i64>) -> Lookup {
    let mut filter = doc! {"s": sensor};
    if let Some(since_ms) = since_ms {
        filter.insert("t", doc! {"$gte": DateTime::from_millis(since_ms)});
    }
    Lookup::new(filter).sorted(doc! {"t": -1}).limited(1)
}

/// A measurement: a reading with these of its metrics.
fn encode(reading: &Reading, part: &Metrics) -> Result<RawDocumentBuf, bson::error::Error> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("t"), DateTime::from_millis(reading.at_ms));
    document.append(cstr!("s"), reading.sensor.as_str());
    if let Some(event) = &reading.event {
        document.append(cstr!("e"), event.as_str());
    }
    document.append(cstr!("m"), metrics(part)?);
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
