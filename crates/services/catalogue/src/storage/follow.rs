//! Follows the changes of datasets for jobs that may be repeated and continue after a crash.

use bson::{DateTime, Document, doc};

use super::{Error, READ_MAX, Store};

/// The maximum number of datasets in a batch.
const DATASETS_MAX: i64 = 100;
/// The maximum size of a batch as stored, in bytes. A single dataset may be larger.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// The minimum age of a change that a job reads: before that, a transaction that began earlier may still become visible.
const LAG_MS: i64 = 5_000;

impl Store {
    /// The next datasets that changed up to five seconds ago, with some of their fields, from the place of a job on. An empty batch means that the job
    /// has caught up.
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
        let progress = self.progress.find_one(doc! {"_id": job}).max_time(READ_MAX).await?;
        let mut filter = doc! {"updatedAt": {"$lte": before}};
        if let Some((at, after)) = progress.as_ref().and_then(|it| Some((it.get("at")?, it.get("after")?))) {
            filter = doc! {
                "updatedAt": {"$gte": at, "$lte": before},
                "$or": [{"updatedAt": {"$gt": at}}, {"_id": {"$gt": after}}],
            };
        }
        fields.insert("updatedAt", 1);
        let found = self.datasets.find(filter).sort(doc! {"updatedAt": 1, "_id": 1}).limit(DATASETS_MAX);
        let mut found = found.projection(fields).max_time(READ_MAX).await?;
        let (mut datasets, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES_MAX && found.advance().await? {
            bytes += found.current().as_bytes().len();
            datasets.push(found.deserialize_current()?);
        }
        Ok(datasets)
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
