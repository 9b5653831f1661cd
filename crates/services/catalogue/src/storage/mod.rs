//! Keeps the catalogue in MongoDB, under SciCat's names of collections and indexes.
//!
//! Sizes are always right: a block and the counts of its dataset change in one transaction. On a server without transactions they change
//! in steps, and [`Store::repair`] repairs every state that a crash can leave.

mod blocks;
mod cache;
mod datasets;
mod error;
mod files;
mod follow;
mod indexes;
mod keys;
mod lists;
mod locks;
mod merge;
mod newest;
mod room;
mod search;
mod secret;
mod sizes;
mod transaction;
mod updates;

pub use blocks::BlockWriter;
pub use cache::Clock;
pub use error::Error;
use error::is_slow;
pub(crate) use error::{is_bad_query, is_too_slow};
pub use files::Files;
pub use keys::Batch;
pub use room::Room;
pub use sizes::Sizes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::{Client, Collection, Database};
use tokio::sync::Semaphore;

use crate::Refusal;
use crate::query::page::Cursor;
use cache::Cache;

/// Decides whether the caller may still change a dataset, whose access has changed since it was read.
pub type Check<'a> = &'a (dyn Fn(&Document) -> Result<(), Refusal> + Send + Sync);

/// The attempts at a write while others change the dataset.
const ACCESS_ATTEMPTS_MAX: u32 = 5;
/// The longest time of a read on the server.
pub(crate) const READ_MAX: Duration = Duration::from_secs(10);

/// The time after which a page of the newest datasets is read by ranges of dates.
const PLAIN_MAX: Duration = Duration::from_millis(250);

/// Whether the server has transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// The server has transactions.
    Used,
    /// The server has none: changes of several documents take several steps.
    Missing,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The stored documents.
    pub documents: Vec<Document>,
    /// The cursor after the last document, if a cursor can page the list and the page is full.
    pub next: Option<Cursor>,
}

/// The catalogue in a database. Clones share it.
#[derive(Clone)]
pub struct Store {
    client: Client,
    transactions: Transactions,
    datasets: Collection<Document>,
    blocks: Collection<Document>,
    /// The files of long blocks after the first.
    parts: Collection<Document>,
    /// Blocks whose parts are being written.
    staging: Collection<Document>,
    attachments: Collection<Document>,
    history: Collection<Document>,
    keys: Collection<Document>,
    progress: Collection<Document>,
    secrets: Collection<Document>,
    locks: Arc<locks::Locks>,
    /// Permits for the lists of merged lists.
    lists: Arc<Semaphore>,
    newest: Arc<newest::Newest>,
    /// The longest time of a page's first query.
    plain_max: Duration,
    spans: Arc<follow::Spans>,
    written: Arc<Mutex<keys::Written>>,
    counts: Arc<Cache<u64>>,
    facets: Arc<Cache<serde_json::Value>>,
}

impl Store {
    /// Opens the catalogue in a database and creates missing indexes.
    ///
    /// # Errors
    /// The refusal of the server.
    pub async fn open(database: &Database) -> Result<Self, Error> {
        let hello = database.run_command(doc! {"hello": 1}).await?;
        let has_transactions =
            hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
        let transactions = if has_transactions { Transactions::Used } else { Transactions::Missing };
        let store = Self::of(database, transactions);
        indexes::create(&store).await?;
        Ok(store)
    }

    /// Lets the jobs of a new catalogue begin at a moment, which none of its datasets may precede.
    ///
    /// # Errors
    /// The server failed.
    pub async fn begin_jobs(&self, at: bson::DateTime) -> Result<(), Error> {
        self.begin_at(keys::JOB, at).await?;
        self.begin_at(crate::documents::search::GRAMS, at).await
    }

    /// Reads pages of the newest datasets by ranges of dates after this time; zero: at once.
    #[must_use]
    pub fn with_plain_max(self, plain_max: Duration) -> Self {
        Self { plain_max, ..self }
    }

    /// The catalogue in a database that has its indexes.
    pub fn of(database: &Database, transactions: Transactions) -> Self {
        Self {
            client: database.client().clone(),
            transactions,
            datasets: database.collection("Dataset"),
            blocks: database.collection("OrigDatablock"),
            parts: database.collection("OrigDatablockPart"),
            staging: database.collection("OrigDatablockStaging"),
            attachments: database.collection("Attachment"),
            history: database.collection("History"),
            keys: database.collection("MetadataKeys"),
            secrets: database.collection("TokenSecret"),
            progress: database.collection("MetadataKeysProgress"),
            locks: Arc::default(),
            lists: Arc::new(Semaphore::new(merge::ALL_LISTS_MAX)),
            newest: Arc::default(),
            plain_max: PLAIN_MAX,
            spans: Arc::default(),
            written: Arc::default(),
            counts: Arc::default(),
            facets: Arc::default(),
        }
    }
}
