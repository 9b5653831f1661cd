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

use bson::{Document, RawDocumentBuf, doc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mongodb::{Collection, Database};

use self::full_cache::Full;
use self::layout::Layout;
use self::server::Server;
use super::range::{Page, RangeQuery};
use super::record::create;
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
/// of its buckets, and the smallest setting of a full bucket.
async fn agree(database: &Database, settings: &BucketSettings) -> Result<(), Error> {
    let layouts = database.collection::<Document>(LAYOUTS);
    let (minutes, fill) =
        (i64::from(settings.minutes), i64::try_from(settings.readings_max).unwrap_or(i64::MAX));
    let before = layouts.find_one_and_update(ours(), division(minutes, fill)).upsert(true).await?;
    let Some(before) = before else { return Ok(()) };
    let same = |name: &str, fits: fn(i64, i64) -> bool, ours| match before.get_i64(name) {
        Ok(theirs) if !fits(ours, theirs) => Err(Error::Setting(format!(
            "bucket.{name} is {ours}, and existing buckets have {theirs}: use {theirs}"
        ))),
        _ => Ok(()),
    };
    same("minutes", |ours, theirs| ours == theirs, minutes)?;
    same("readings_max", |ours, theirs| ours <= theirs, fill)
}

/// The `_id` of the record of this collection's layout.
fn ours() -> Document {
    doc! {"_id": COLLECTION}
}

fn division(minutes: i64, fill: i64) -> Document {
    doc! {"$setOnInsert": {"minutes": minutes}, "$min": {"readings_max": fill}}
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
        let update = division(60, 500);
        let agree = doc! {"findAndModify": LAYOUTS, "query": ours(), "update": update, "upsert": true};
        commands.push(("record the layout, at the start", agree));
        commands
    }
}
