//! Prefills a database with published datasets, generated from a seed in bounded pieces. A fill that was interrupted continues.

use std::ops::Range;

use bson::{DateTime, Document};
use futures_util::{StreamExt, stream};
use mongodb::Database;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Refusal;
use crate::documents::dataset::{self, Version};
use crate::mixed::mixed;
use crate::moment;
use crate::storage::{self, Store};

/// The number of datasets in a batch.
const BATCH: u64 = 500;
/// Batches in flight.
const IN_FLIGHT: usize = 4;
/// The datasets between two messages.
const TELL_EVERY: u64 = 50_000;
/// Milliseconds between two datasets.
const APART_MS: i64 = 10_000;

/// The data to fill in: the order of `plimsoll serve catalogue --fill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The seed of all values.
    pub seed: u64,
    /// The time of the newest dataset, in milliseconds since 1970.
    pub end_ms: i64,
    /// Datasets, from `PID.SAMPLE.PREFIX/predefined_0` on, oldest first.
    pub datasets: u64,
    /// Fields in the metadata of each dataset.
    pub fields: u64,
}

/// The reason why a fill stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refused.
    #[error("filling the database stopped after {done} datasets; run it again to continue: {source}")]
    Storage {
        /// The stored datasets.
        done: u64,
        /// The reason.
        source: storage::Error,
    },
    /// The order makes an invalid dataset.
    #[error("--fill: {0:?}")]
    Invalid(Refusal),
}

/// Creates the indexes, then stores the datasets: the embedded server adds entries faster than it builds an index of many datasets. Filling
/// again changes no data and sends only the batches that are not complete. `tell` gets the progress.
///
/// # Errors
/// The first [`Error`].
pub async fn fill(
    database: &Database,
    order: &Fill,
    tell: &mut (dyn FnMut(String) + Send),
) -> Result<(), Error> {
    let store = Store::open(database).await.map_err(|source| Error::Storage { done: 0, source })?;
    let existing = store.estimated_count().await.map_err(|source| Error::Storage { done: 0, source })?;
    let start = if existing > 0 { Start::Continued } else { Start::Empty };
    if start == Start::Continued {
        tell(format!("continuing: the database has {existing} datasets"));
    } else {
        let begun = store.begin_jobs(order.at(0)).await;
        begun.map_err(|source| Error::Storage { done: 0, source })?;
    }
    let mut batches = stream::iter(batches(order.datasets))
        .map(|numbers| {
            let (store, order) = (store.clone(), *order);
            // Each batch has a task, so that the next batch is made while the server stores this one.
            async move { tokio::spawn(async move { piece(&store, &order, numbers, start).await }).await }
        })
        .buffer_unordered(IN_FLIGHT);
    let (mut done, mut next) = (0, TELL_EVERY);
    while let Some(stored) = batches.next().await {
        let stored = stored.map_err(|error| lost(done, &error))?;
        done += stored.map_err(|error| with_progress(error, done))?;
        if done >= next {
            next = done + TELL_EVERY;
            tell(format!("filling in: {done} of {} datasets", order.datasets));
        }
    }
    Ok(())
}

fn lost(done: u64, error: &tokio::task::JoinError) -> Error {
    Error::Storage { done, source: mongodb::error::Error::custom(error.to_string()).into() }
}

fn with_progress(error: Error, done: u64) -> Error {
    match error {
        Error::Storage { source, .. } => Error::Storage { done, source },
        other => other,
    }
}

/// The state of the database before a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Empty,
    Continued,
}

/// Stores a batch. A dataset that exists stays, and a complete batch is not sent.
async fn piece(store: &Store, order: &Fill, numbers: Range<u64>, start: Start) -> Result<u64, Error> {
    let count = numbers.end - numbers.start;
    if start == Start::Continued {
        let pids: Vec<String> = numbers.clone().map(pid).collect();
        let existing = store.count_existing(&pids).await;
        if existing.map_err(|source| Error::Storage { done: 0, source })? == count {
            return Ok(count);
        }
    }
    let datasets = numbers.map(|number| order.dataset(number)).collect::<Result<Vec<_>, _>>();
    let stored = store.create_many(&datasets.map_err(Error::Invalid)?).await;
    stored.map(|_| count).map_err(|source| Error::Storage { done: 0, source })
}

/// The PID of a dataset.
fn pid(number: u64) -> String {
    format!("PID.SAMPLE.PREFIX/predefined_{number}")
}

fn batches(datasets: u64) -> impl Iterator<Item = Range<u64>> {
    (0..datasets.div_ceil(BATCH)).map(move |batch| batch * BATCH..((batch + 1) * BATCH).min(datasets))
}

impl Fill {
    /// The stored form of a dataset.
    fn dataset(&self, number: u64) -> Result<Document, Refusal> {
        let at = self.at(number);
        let creation =
            dataset::Creation { pid: String::new(), by: "fill", at, types: &[], tape_redundancy: None };
        dataset::create(&self.body(number, at), Version::V3, &creation)
    }

    /// The time of a dataset.
    fn at(&self, number: u64) -> DateTime {
        let back = i64::try_from(self.datasets.saturating_sub(number)).unwrap_or(i64::MAX);
        DateTime::from_millis(self.end_ms.saturating_sub(back.saturating_mul(APART_MS)))
    }

    fn body(&self, number: u64, at: DateTime) -> Value {
        let pick = |topic: u64, of: u64| mixed(self.seed ^ mixed(number ^ mixed(topic))) % of;
        let fields: Map<String, Value> = (0..self.fields)
            .map(|field| {
                let value = format!("Sample data {}", pick(field + 10, 1_000_000));
                (format!("field_{field}"), json!({"value": value, "unit": "unit"}))
            })
            .collect();
        json!({
            "pid": pid(number), "type": "raw", "isPublished": true,
            "owner": format!("owner {}", pick(0, 500)), "ownerGroup": format!("group-{}", pick(1, 100)),
            "accessGroups": [format!("beamline-{}", pick(2, 20))], "contactEmail": "contact@example.org",
            "principalInvestigator": format!("investigator {}", pick(3, 200)),
            "creationLocation": format!("/site/beamline-{}", pick(2, 20)),
            "sourceFolder": format!("/data/{}/run-{number}", pick(1, 100)), "creationTime": moment::text(at),
            "datasetName": format!("run {number}"), "keywords": [format!("keyword-{}", pick(4, 50))],
            "scientificMetadata": fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_dataset_once() {
        for datasets in [0, 1, BATCH, BATCH + 1, 10 * BATCH - 1] {
            assert!(batches(datasets).flatten().eq(0..datasets), "{datasets}");
            assert!(batches(datasets).all(|batch| batch.end - batch.start <= BATCH));
        }
    }

    #[test]
    fn a_dataset_follows_from_the_seed_and_its_number() {
        let order = |seed| Fill { seed, end_ms: 1_790_000_000_000, datasets: 10, fields: 3 };
        assert_eq!(order(1).dataset(4), order(1).dataset(4));
        assert_ne!(order(1).dataset(4), order(2).dataset(4));
        let newest = order(1).dataset(9).unwrap();
        assert_eq!(newest.get_str("_id").unwrap(), "PID.SAMPLE.PREFIX/predefined_9");
        assert!(newest.get_bool("isPublished").unwrap());
        assert_eq!(newest.get_datetime("creationTime").unwrap().timestamp_millis(), 1_789_999_990_000);
        assert_eq!(newest.get_document("scientificMetadata").unwrap().len(), 3);
    }
}
