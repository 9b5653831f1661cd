//! Encodes the update of a bucket. No name or value of a reading can become an operator.

use std::collections::BTreeMap;

use bson::{Bson, DateTime, Document, doc};

use super::super::partial::Metrics;
use super::super::tally::Summary;
use super::layout::{Layout, Slot};
use super::write::{Merge, Update};
use crate::reading::Reading;

/// The statement for the `update` command: guard, change, upsert.
pub(super) fn statement(layout: &Layout, update: &Update<'_>) -> Document {
    doc! {"q": guard(layout, update), "u": change(update), "upsert": true}
}

/// The guard: the bucket has room and holds none of the readings. If it fails, the upsert violates the unique `_id`.
fn guard(layout: &Layout, update: &Update<'_>) -> Document {
    let slots: Vec<Bson> =
        update.readings.iter().map(|reading| Slot::of(reading, update.start_ms).to_bson()).collect();
    let room = i32::try_from(layout.readings_max).unwrap_or(i32::MAX);
    doc! {"_id": &update.id, "n": {"$lt": room}, "r.k": {"$nin": slots}}
}

fn change(update: &Update<'_>) -> Document {
    let mut rows = Vec::with_capacity(update.readings.len());
    for reading in &update.readings {
        let metrics: Document =
            reading.metrics.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
        rows.push(Bson::from(doc! {"k": Slot::of(reading, update.start_ms).to_bson(), "m": metrics}));
    }
    let Computed { mut adds, least, greatest } =
        Computed::of(update.readings.iter().map(|reading| &reading.metrics));
    adds.insert("n", i32::try_from(rows.len()).unwrap_or(i32::MAX));
    let sensor = update.readings.first().map_or("", |reading| reading.sensor.as_str());
    doc! {
        "$setOnInsert": {"s": sensor, "t": DateTime::from_millis(update.start_ms)},
        "$push": {"r": {"$each": rows}},
        "$inc": adds,
        "$min": least,
        "$max": greatest,
    }
}

/// The changes of a bucket's computed part.
#[derive(Default)]
struct Computed {
    adds: Document,
    least: Document,
    greatest: Document,
}

impl Computed {
    /// The changes by these metrics of several readings.
    fn of<'m>(all: impl Iterator<Item = &'m Metrics>) -> Self {
        let mut summaries = BTreeMap::new();
        for (name, value) in all.flatten() {
            summaries.entry(name.as_str()).or_insert(Summary::NONE).add(Summary::of(*value));
        }
        let mut computed = Self::default();
        for (name, summary) in summaries {
            computed.adds.insert(format!("c.{name}.n"), i64::try_from(summary.count).unwrap_or(i64::MAX));
            computed.adds.insert(format!("c.{name}.sum"), summary.sum);
            computed.least.insert(format!("c.{name}.min"), summary.min);
            computed.greatest.insert(format!("c.{name}.max"), summary.max);
        }
        computed
    }
}

/// The statement of a merge: its guard is that every row exists and has none of its metrics.
pub(super) fn merge_statement(merge: &Merge) -> Document {
    let (mut guards, mut sets, mut filters) = (Vec::new(), Document::new(), Vec::new());
    for (index, row) in merge.rows.iter().enumerate() {
        let mut guard = doc! {"k": row.slot.to_bson()};
        for (name, value) in &row.more {
            guard.insert(format!("m.{name}"), doc! {"$exists": false});
            sets.insert(format!("r.$[r{index}].m.{name}"), *value);
        }
        guards.push(doc! {"r": {"$elemMatch": guard}});
        filters.push(doc! {format!("r{index}.k"): row.slot.to_bson()});
    }
    let Computed { adds, least, greatest } = Computed::of(merge.rows.iter().map(|row| &row.more));
    doc! {
        "q": {"_id": &merge.id, "$and": guards},
        "u": {"$set": sets, "$inc": adds, "$min": least, "$max": greatest},
        "arrayFilters": filters,
    }
}

/// An upper bound of the statement's bytes: each metric occurs in the row and four times in the computed part.
pub(super) fn bytes_at_most(update: &Update<'_>) -> usize {
    let metric = |(name, _): &(String, f64)| 5 * name.len() + 100;
    let row = |reading: &&Reading| {
        60 + reading.event.as_ref().map_or(0, |event| 2 * event.len())
            + reading.metrics.iter().map(metric).sum::<usize>()
    };
    let sensor = update.readings.first().map_or(0, |reading| reading.sensor.len());
    300 + 2 * sensor + update.readings.iter().map(row).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::BucketSettings;
    use super::*;

    fn wide(metrics: usize, event: Option<String>) -> Reading {
        let metrics = (0..metrics).map(|n| (format!("{n:064}"), 0.1)).collect();
        Reading { sensor: "s".repeat(128), at_ms: 1_790_000_000_000, event, metrics }
    }

    #[test]
    fn a_statement_is_never_larger_than_its_estimate() {
        let layout = Layout::new(&BucketSettings::default());
        for reading in [wide(64, Some("e".repeat(128))), wide(1, None), wide(4, Some("e".into()))] {
            let mut update = Update::of(&layout, &reading);
            for _ in 0..3 {
                let bytes = bson::serialize_to_vec(&statement(&layout, &update)).unwrap().len();
                assert!(bytes <= bytes_at_most(&update), "{bytes} of {}", bytes_at_most(&update));
                update.readings.push(&reading);
            }
        }
    }
}
