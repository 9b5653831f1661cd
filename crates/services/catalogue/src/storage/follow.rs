//! Follows the changes of datasets for jobs that may be repeated and continue after a crash.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};

use super::error::is_too_slow;
use super::{Error, READ_MAX, Store};

/// The maximum number of datasets in a batch.
const DATASETS_MAX: i64 = 100;
/// The maximum size of a batch as stored, in bytes. A single dataset may be larger.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// The minimum age of a change that a job reads: before that, a transaction that began earlier may still become visible.
const LAG_MS: i64 = 5_000;

/// The first span of time that a job reads at once, in milliseconds.
const SPAN_MS: i64 = 60_000;

/// The longest time of a query for a span. The embedded server answers few other queries during a long one.
const SPAN_MAX: Duration = Duration::from_secs(1);
/// The divisor of a span that took too long: the first spans of a filled catalogue are years.
const SHRINKS: i64 = 8;

/// The span of time in which each job finds about one batch.
pub(super) type Spans = Mutex<HashMap<String, i64>>;

/// The end of a job's last batch.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    at: DateTime,
    after: Bson,
}

impl Place {
    /// The place before all datasets.
    fn first() -> Self {
        Self { at: DateTime::from_millis(0), after: Bson::MinKey }
    }

    fn of(progress: &Document) -> Option<Self> {
        Some(Self { at: *progress.get_datetime("at").ok()?, after: progress.get("after")?.clone() })
    }

    /// The datasets after this place, up to a time, in order: those of the same moment, and the later ones. One query with a choice (`$or`) of
    /// both would read all datasets on the embedded server.
    fn conditions(&self, end: DateTime) -> [Document; 2] {
        [
            doc! {"updatedAt": self.at, "_id": {"$gt": &self.after}},
            doc! {"updatedAt": {"$gt": self.at, "$lte": end}},
        ]
    }
}

impl Store {
    /// The next datasets that changed up to five seconds ago, with some of their fields, from the place of a job on. An empty batch means that the job
    /// has caught up.
    ///
    /// A query reads a span of time: a server that does not stop a scan at its limit would read all later datasets for each batch.
    ///
    /// # Errors
    /// The server failed.
    pub(super) async fn changed(
        &self,
        job: &str,
        mut fields: Document,
        now: DateTime,
    ) -> Result<Vec<Document>, Error> {
        let before = DateTime::from_millis(now.timestamp_millis().saturating_sub(LAG_MS));
        fields.insert("updatedAt", 1);
        let progress = self.progress.find_one(doc! {"_id": job}).max_time(READ_MAX).await?;
        let mut place = progress.as_ref().and_then(Place::of).unwrap_or_else(Place::first);
        let mut span_ms = self.spans().get(job).copied().unwrap_or(SPAN_MS);
        // A span of this call is never as long as one that took too long.
        let mut most_ms = i64::MAX;
        loop {
            let left_ms = before.timestamp_millis().saturating_sub(place.at.timestamp_millis());
            let read_ms = span_ms.min(most_ms).min(left_ms);
            let end = DateTime::from_millis(place.at.timestamp_millis().saturating_add(read_ms));
            let max_time = if read_ms > 1 { SPAN_MAX } else { READ_MAX };
            let datasets = match self.batch(place.conditions(end), &fields, max_time).await {
                Err(Error::Database(error)) if read_ms > 1 && is_too_slow(&error) => {
                    most_ms = (read_ms / SHRINKS).max(1);
                    continue;
                }
                read => read?,
            };
            let is_end = read_ms >= left_ms;
            if !is_end || datasets.len() >= DATASETS_MAX as usize {
                span_ms = next_span(read_ms, datasets.len());
                self.spans().insert(job.to_owned(), span_ms);
            }
            if is_end || !datasets.is_empty() {
                return Ok(datasets);
            }
            // Nothing changed up to here, and `end` is older than the lag.
            place = Place { at: end, after: Bson::MaxKey };
        }
    }

    /// Whether a job has a place. It has none before its first batch, and after an operator has removed it.
    ///
    /// # Errors
    /// The server failed.
    pub(super) async fn has_followed(&self, job: &str) -> Result<bool, Error> {
        Ok(self.progress.find_one(doc! {"_id": job}).max_time(READ_MAX).await?.is_some())
    }

    /// Lets a job without a place begin at a moment, which no dataset may precede. From 1970 on, its first spans would be years.
    ///
    /// # Errors
    /// The server failed.
    pub(super) async fn begin_at(&self, job: &str, at: DateTime) -> Result<(), Error> {
        let place = doc! {"$setOnInsert": {"at": at, "after": Bson::MinKey}};
        self.progress.update_one(doc! {"_id": job}, place).upsert(true).await?;
        Ok(())
    }

    /// The first datasets that meet one condition after the other, in the order of their changes.
    async fn batch(
        &self,
        filters: [Document; 2],
        fields: &Document,
        max_time: Duration,
    ) -> Result<Vec<Document>, Error> {
        let (mut datasets, mut bytes) = (Vec::new(), 0);
        for filter in filters {
            let left = DATASETS_MAX - datasets.len() as i64;
            if left == 0 || bytes >= BATCH_BYTES_MAX {
                break;
            }
            let found = self.datasets.find(filter).sort(doc! {"updatedAt": 1, "_id": 1}).limit(left);
            let mut found = found.projection(fields.clone()).max_time(max_time).await?;
            while bytes < BATCH_BYTES_MAX && found.advance().await? {
                bytes += found.current().as_bytes().len();
                datasets.push(found.deserialize_current()?);
            }
        }
        Ok(datasets)
    }

    fn spans(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the place of a job: after the last dataset of a batch.
    ///
    /// # Errors
    /// The server failed.
    pub(super) async fn followed(&self, job: &str, batch: &[Document]) -> Result<(), Error> {
        let Some(last) = batch.last() else { return Ok(()) };
        let place = doc! {"$set": {"at": last.get("updatedAt").cloned(), "after": last.get("_id").cloned()}};
        self.progress.update_one(doc! {"_id": job}, place).upsert(true).await?;
        Ok(())
    }
}

/// The next span of a job whose last span had this many datasets.
fn next_span(span_ms: i64, datasets: usize) -> i64 {
    let most = DATASETS_MAX as usize;
    let next_ms = match datasets {
        0 => span_ms.saturating_mul(8),
        _ if datasets >= most => span_ms / 4,
        _ if datasets < most / 4 => span_ms.saturating_mul(2),
        _ => span_ms,
    };
    next_ms.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_grows_until_it_holds_about_a_batch() {
        for every_ms in [1, 60_000, 86_400_000] {
            let mut span_ms = SPAN_MS;
            for _ in 0..60 {
                let datasets = (span_ms / every_ms).min(DATASETS_MAX) as usize;
                span_ms = next_span(span_ms, datasets);
            }
            let held = span_ms / every_ms;
            assert!((DATASETS_MAX / 4..DATASETS_MAX).contains(&held), "{every_ms}: {held}");
        }
        assert_eq!(next_span(1, 100), 1);
        assert_eq!(next_span(i64::MAX, 0), i64::MAX);
    }
}
