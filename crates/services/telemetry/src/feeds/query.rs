//! Represents queries and changes as values, which the driver runs and `explain` takes.

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::{Cursor, Database};

/// The server's error code of a duplicate key.
const DUPLICATE_KEY: i32 = 11_000;

/// A query.
pub(super) struct Find {
    pub(super) collection: &'static str,
    pub(super) filter: Document,
    pub(super) sort: Document,
    pub(super) projection: Document,
    /// The largest number of documents to return; 0 means no limit.
    pub(super) limit: u32,
}

impl Find {
    pub(super) fn new(collection: &'static str, filter: Document) -> Self {
        Self { collection, filter, sort: Document::new(), projection: Document::new(), limit: 0 }
    }

    pub(super) async fn cursor(&self, database: &Database) -> Result<Cursor<Document>, Error> {
        let collection = database.collection::<Document>(self.collection);
        let mut find = collection.find(self.filter.clone()).limit(self.limit.into());
        if !self.sort.is_empty() {
            find = find.sort(self.sort.clone());
        }
        if !self.projection.is_empty() {
            find = find.projection(self.projection.clone());
        }
        find.await
    }

    pub(super) async fn all(&self, database: &Database) -> Result<Vec<Document>, Error> {
        self.cursor(database).await?.try_collect().await
    }

    pub(super) async fn first(&self, database: &Database) -> Result<Option<Document>, Error> {
        self.cursor(database).await?.try_next().await
    }

    pub(super) fn command(&self) -> Document {
        let mut command = doc! {"find": self.collection, "filter": self.filter.clone()};
        for (name, value) in [("sort", &self.sort), ("projection", &self.projection)] {
            if !value.is_empty() {
                command.insert(name, value.clone());
            }
        }
        if self.limit > 0 {
            command.insert("limit", i64::from(self.limit));
        }
        command
    }
}

/// An update.
pub(super) struct Update {
    pub(super) collection: &'static str,
    pub(super) filter: Document,
    pub(super) update: Document,
}

impl Update {
    pub(super) async fn run(&self, database: &Database) -> Result<u64, Error> {
        let collection = database.collection::<Document>(self.collection);
        let result = collection.update_many(self.filter.clone(), self.update.clone()).await?;
        Ok(result.matched_count)
    }

    pub(super) fn command(&self) -> Document {
        let update = doc! {"q": self.filter.clone(), "u": self.update.clone(), "multi": true};
        doc! {"update": self.collection, "updates": [update]}
    }
}

/// A deletion.
pub(super) struct Delete {
    pub(super) collection: &'static str,
    pub(super) filter: Document,
}

impl Delete {
    pub(super) async fn run(&self, database: &Database) -> Result<u64, Error> {
        let collection = database.collection::<Document>(self.collection);
        Ok(collection.delete_many(self.filter.clone()).await?.deleted_count)
    }

    pub(super) fn command(&self) -> Document {
        doc! {"delete": self.collection, "deletes": [{"q": self.filter.clone(), "limit": 0}]}
    }
}

/// Inserts documents and ignores duplicates.
///
/// # Errors
/// All errors except duplicate keys.
pub(super) async fn insert_new(
    database: &Database,
    collection: &'static str,
    documents: Vec<Document>,
) -> Result<(), Error> {
    if documents.is_empty() {
        return Ok(());
    }
    let collection = database.collection::<Document>(collection);
    match collection.insert_many(documents).ordered(false).await {
        Err(error) if !is_known(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether all errors are duplicate keys.
pub(super) fn is_known(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::InsertMany(failed) => {
            let errors = failed.write_errors.as_deref().unwrap_or_default();
            let all = errors.iter().all(|error| error.code == DUPLICATE_KEY);
            all && !errors.is_empty() && failed.write_concern_error.is_none()
        }
        ErrorKind::Write(WriteFailure::WriteError(failed)) => failed.code == DUPLICATE_KEY,
        _ => false,
    }
}
