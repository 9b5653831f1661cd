//! Stores computed buckets: one document for each sensor and hour (or part of it), with the values, and count, sum, minimum
//! and maximum of each metric.
//!
//! ```text
//! {_id: "sensor⇥start⇥level", s: sensor, t: start, n: readings,
//!  c: {metric: {n, sum, min, max}},
//!  r: [{k: milliseconds after the start, or "milliseconds:event", m: {metric: value}}]}
//! ```
//!
//! A full bucket accepts no more readings, but still accepts further metrics of the readings that it has. Further readings go
//! to the bucket of their minute, then of their second, then of their millisecond. So time and the set of full buckets
//! determine the bucket of a reading, and full buckets stay full: a retried reading is found along the same path, in at most
//! four documents.
//!
//! A write is one update with a guard: the bucket is not full and contains none of the readings. All readings of a commit for
//! one bucket are one update. If the guard fails, the upsert reports a duplicate key. Then the store reads the bucket and
//! retries the missing readings. A second, guarded update adds the metrics that a stored reading lacks to its row.

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mongodb::{Collection, Database};

use self::full_cache::Full;
use self::layout::Layout;
use self::server::Server;
use super::range::{Page, RangeQuery};
use super::record::{count, create, is_duplicate};
use super::settings::BucketSettings;
use super::store::Store;
use super::stored::Written;
use super::tally::Tally;
use super::{Error, Fault};
use crate::reading::Reading;

mod full_cache;
mod layout;
mod read;
mod server;
mod update;
mod write;

#[cfg(test)]
mod simulated;

pub(super) const COLLECTION: &str = "reading_buckets";
const LAYOUTS: &str = "reading_layouts";
/// The attempts to agree on a division. A record never changes its minutes, so the second attempt meets the final record.
const ATTEMPTS_MAX: u32 = 3;

/// The design's collection.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    layout: Layout,
    buckets: Collection<RawDocumentBuf>,
    server: Server,
    full: Arc<Full>,
}

impl Buckets {
    /// Creates the collection, so that the first commit does not have to.
    pub(crate) async fn open(database: &Database, settings: &BucketSettings) -> Result<Self, Error> {
        create(database.create_collection(COLLECTION)).await?;
        agree(database, settings).await?;
        let buckets = database.collection(COLLECTION);
        let layout = Layout::new(settings);
        let server = Server::new(database.clone(), layout);
        Ok(Buckets { layout, buckets, server, full: Arc::default() })
    }
}

/// Ensures that retried readings are looked up in the right buckets. The first process to open a database records the division
/// of its buckets, and the smallest setting of a full bucket. A refused process changes no record.
async fn agree(database: &Database, settings: &BucketSettings) -> Result<(), Error> {
    let layouts = database.collection::<RawDocumentBuf>(LAYOUTS);
    let mut attempts = 0;
    loop {
        attempts += 1;
        match layouts.find_one(ours()).await? {
            Some(found) => check(&found, settings)?,
            None => check_unrecorded(database).await?,
        }
        let (query, update) = division(settings);
        match layouts.find_one_and_update(query, update).upsert(true).await {
            // Another process has recorded a division since the check: this process checks that one.
            Err(error) if is_duplicate(&error) && attempts < ATTEMPTS_MAX => {}
            before => return before?.map_or(Ok(()), |before| check(&before, settings)),
        }
    }
}

/// Refuses settings that contradict the record.
fn check(found: &RawDocument, settings: &BucketSettings) -> Result<(), Error> {
    let recorded = |name: &str| found.get(name)?.map(count).transpose();
    let conflict = |name: &str, ours: u64, theirs: u64| {
        Err(Error::Setting(format!(
            "readings.{name} is {ours}, and existing buckets have {theirs}: use {theirs}"
        )))
    };
    let (minutes, fill) = (u64::from(settings.minutes), settings.readings_max as u64);
    match (recorded("minutes")?, recorded("readings_max")?) {
        (Some(theirs), _) if theirs != minutes => conflict("bucket_minutes", minutes, theirs),
        (_, Some(theirs)) if theirs < fill => conflict("bucket_max", fill, theirs),
        _ => Ok(()),
    }
}

/// Refuses buckets of an unknown division, as after a restore without the record.
async fn check_unrecorded(database: &Database) -> Result<(), Error> {
    let buckets = database.collection::<RawDocumentBuf>(COLLECTION);
    match buckets.find_one(doc! {}).projection(doc! {"_id": 1}).await? {
        Some(_) => Err(Error::Unrecorded),
        None => Ok(()),
    }
}

/// The `_id` of the record of this collection's layout.
fn ours() -> Document {
    doc! {"_id": COLLECTION}
}

/// The query and the update that record a division. The query has the minutes, so that a record with others is never changed.
fn division(settings: &BucketSettings) -> (Document, Document) {
    let fill = i64::try_from(settings.readings_max).unwrap_or(i64::MAX);
    let query = doc! {"_id": COLLECTION, "minutes": i64::from(settings.minutes)};
    (query, doc! {"$min": {"readings_max": fill}})
}

impl Store for Buckets {
    fn write<'a>(&'a self, readings: &'a [Reading]) -> BoxFuture<'a, Result<Vec<Written>, Fault>> {
        write::write(&self.layout, &self.full, &self.server, readings).boxed()
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
        let mut commands = read::commands(&self.layout, sensor, from_ms, to_ms);
        commands.extend(self.server.commands(sensor, from_ms));
        let (query, update) = division(&BucketSettings::default());
        let agree = doc! {"findAndModify": LAYOUTS, "query": query, "update": update, "upsert": true};
        commands.push(("record the layout, at the start", agree));
        commands
    }
}
