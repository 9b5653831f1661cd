//! Reads buckets: the computed part where it suffices, otherwise the values.

use bson::raw::RawBsonRef;
use bson::{Document, RawDocument, doc};

use super::super::lookup::Lookup;
use super::super::range::{Merge, Page, RangeQuery, Want};
use super::super::record::{count, number, pairs};
use super::super::tally::{Summary, Tally};
use super::super::{Error, key};
use super::layout::{Head, Layout, Slot};
use super::{Buckets, COLLECTION};
use crate::reading::Reading;

/// The number of buckets in each reply, for queries that may stop early: a bucket has tens of kilobytes.
const BATCH: u32 = 8;

impl Buckets {
    pub(super) async fn add_up(&self, sensor: &str, tally: &mut Tally) -> Result<(), Error> {
        if tally.takes_summaries() {
            return self.add_up_summaries(sensor, tally).await;
        }
        for lookup in window(&self.layout, sensor, tally.start_ms(), tally.end_ms()) {
            self.add_values(lookup, tally).await?;
        }
        Ok(())
    }

    /// Reads computed parts first, then the values of buckets that cross an edge.
    async fn add_up_summaries(&self, sensor: &str, tally: &mut Tally) -> Result<(), Error> {
        let mut across = Vec::new();
        for lookup in window(&self.layout, sensor, tally.start_ms(), tally.end_ms()) {
            let mut cursor = lookup.projected(doc! {"t": 1, "c": 1}).run(&self.buckets).await?;
            while cursor.advance().await? {
                let bucket = cursor.current();
                let Head { start_ms, level } = Head::of(bucket)?;
                if tally.takes_summary(start_ms, start_ms + self.layout.span_ms(level)) {
                    add_summary(bucket, start_ms, tally)?;
                } else {
                    across.push(bucket.get_str("_id")?.to_owned());
                }
            }
        }
        match across.is_empty() {
            true => Ok(()),
            false => self.add_values(these(across), tally).await,
        }
    }

    async fn add_values(&self, lookup: Lookup, tally: &mut Tally) -> Result<(), Error> {
        let mut cursor = lookup.projected(doc! {"t": 1, "r": 1}).run(&self.buckets).await?;
        while cursor.advance().await? {
            for row in rows(cursor.current())? {
                let (at_ms, _, metrics) = row?;
                for metric in metrics {
                    let (name, value) = metric?;
                    tally.add(at_ms, name.as_str(), number(value)?)?;
                }
            }
        }
        Ok(())
    }

    /// Buckets arrive by start and hold no earlier readings, so readings before the next start are complete.
    pub(super) async fn page(&self, query: &RangeQuery) -> Result<Page, Error> {
        let mut merge = Merge::new(query);
        for lookup in window(&self.layout, &query.sensor, query.start_ms(), query.to_ms) {
            let lookup = lookup.sorted(doc! {"_id": 1}).in_batches_of(BATCH);
            let mut cursor = lookup.run(&self.buckets).await?;
            while cursor.advance().await? {
                let bucket = cursor.current();
                if merge.settle(Head::of(bucket)?.start_ms) == Want::Nothing {
                    return Ok(merge.finish());
                }
                for row in rows(bucket)? {
                    merge.push(reading(&query.sensor, row?)?);
                }
            }
        }
        Ok(merge.finish())
    }

    /// The last reading is in the bucket with the last start, or in another bucket that contains that start.
    pub(super) async fn last(&self, sensor: &str, since_ms: Option<i64>) -> Result<Option<Reading>, Error> {
        let mut cursor = last(&self.layout, sensor, since_ms).run(&self.buckets).await?;
        if !cursor.advance().await? {
            return Ok(None);
        }
        let bucket = cursor.current();
        let Head { start_ms, level } = Head::of(bucket)?;
        let mut found = last_in(sensor, bucket)?;
        // Buckets with the same start and a lower level hold later readings too.
        let around: Vec<_> = (0..level).map(|level| self.layout.id(sensor, level, start_ms)).collect();
        if !around.is_empty() {
            let mut cursor = these(around).run(&self.buckets).await?;
            while cursor.advance().await? {
                found = [found, last_in(sensor, cursor.current())?].into_iter().flatten().max_by_key(place);
            }
        }
        Ok(found)
    }
}

/// The buckets of a window: those that contain its start, and those that start in it.
fn window(layout: &Layout, sensor: &str, from_ms: i64, to_ms: i64) -> Vec<Lookup> {
    let starting = doc! {"_id": {"$gte": key::from(sensor, from_ms), "$lt": key::from(sensor, to_ms)}};
    let around = layout.ids_around(sensor, from_ms);
    let around = Some(around).filter(|ids| !ids.is_empty()).map(these);
    around.into_iter().chain([Lookup::new(starting)]).collect()
}

fn these(ids: Vec<String>) -> Lookup {
    Lookup::new(doc! {"_id": {"$in": ids}})
}

fn last(layout: &Layout, sensor: &str, since_ms: Option<i64>) -> Lookup {
    let least = key::from(sensor, layout.start_ms(0, since_ms.unwrap_or(i64::MIN)));
    Lookup::new(doc! {"_id": {"$gte": least, "$lt": key::end(sensor)}}).sorted(doc! {"_id": -1}).limited(1)
}

/// The commands of the reads, for `explain`.
pub(super) fn commands(
    layout: &Layout,
    sensor: &str,
    from_ms: i64,
    to_ms: i64,
) -> Vec<(&'static str, Document)> {
    let named = |name, lookup: Lookup| (name, lookup.command(COLLECTION));
    // No bucket starts at this time, so the command includes those that contain it.
    let within = layout.start_ms(0, from_ms) + 1;
    let mut commands = Vec::new();
    for lookup in window(layout, sensor, within, to_ms) {
        commands.push(named("statistics", lookup.clone().projected(doc! {"t": 1, "r": 1})));
        commands.push(named("summary", lookup.clone().projected(doc! {"t": 1, "c": 1})));
        commands.push(named("range", lookup.sorted(doc! {"_id": 1}).in_batches_of(BATCH)));
    }
    commands.push(named("latest", last(layout, sensor, None)));
    commands.push(named("latest, from the last known time", last(layout, sensor, Some(from_ms))));
    commands.push(named("latest, around the last bucket", these(layout.ids_around(sensor, within))));
    commands
}

fn add_summary(bucket: &RawDocument, start_ms: i64, tally: &mut Tally) -> Result<(), Error> {
    for metric in bucket.get_document("c")? {
        let (name, computed) = metric?;
        let foreign = || Error::Foreign("the computed part of a bucket is incomplete".into());
        let computed = computed.as_document().ok_or_else(foreign)?;
        let value = |field| number(computed.get(field)?.ok_or_else(foreign)?);
        let count = count(computed.get("n")?.ok_or_else(foreign)?)?;
        let summary = Summary { count, sum: value("sum")?, min: value("min")?, max: value("max")? };
        tally.add_summary(start_ms, name.as_str(), summary)?;
    }
    Ok(())
}

/// A stored reading: time, event, metrics.
type Row<'b> = (i64, Option<String>, &'b RawDocument);

fn rows(bucket: &RawDocument) -> Result<impl Iterator<Item = Result<Row<'_>, Error>>, Error> {
    let start_ms = Head::of(bucket)?.start_ms;
    Ok(bucket.get_array("r")?.into_iter().map(move |row| row_of(row?, start_ms)))
}

fn row_of(row: RawBsonRef<'_>, start_ms: i64) -> Result<Row<'_>, Error> {
    let foreign = || Error::Foreign("a bucket has a row that is not a reading".into());
    let row = row.as_document().ok_or_else(foreign)?;
    let Slot { offset_ms, event } = Slot::parse(row.get("k")?.ok_or_else(foreign)?)?;
    Ok((start_ms + offset_ms, event, row.get_document("m")?))
}

fn reading(sensor: &str, (at_ms, event, metrics): Row<'_>) -> Result<Reading, Error> {
    Ok(Reading { sensor: sensor.to_owned(), at_ms, event, metrics: pairs(metrics)? })
}

fn last_in(sensor: &str, bucket: &RawDocument) -> Result<Option<Reading>, Error> {
    let rows = rows(bucket)?.collect::<Result<Vec<_>, _>>()?;
    let last = rows.into_iter().max_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    last.map(|row| reading(sensor, row)).transpose()
}

fn place(reading: &Reading) -> (i64, Option<String>) {
    (reading.at_ms, reading.event.clone())
}
