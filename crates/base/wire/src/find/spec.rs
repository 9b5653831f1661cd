//! Encodes the settings of a find.

use bson::{Bson, Document};
use plimsoll_element::append;

use crate::read_preference::ReadPreference;

/// The settings that the finds of a request share.
#[derive(Clone, Debug, PartialEq)]
pub struct FindSpec {
    /// The database.
    pub db: String,
    /// The collection.
    pub collection: String,
    /// The fields to return.
    pub projection: Option<Document>,
    /// The order.
    pub sort: Option<Document>,
    /// The index, by its name or its keys.
    pub hint: Option<Bson>,
    /// The maximum number of documents; `None` for all.
    pub limit: Option<u32>,
    /// The maximum number of documents of a batch; `None` uses the server's default (101 at first, then 16 MB).
    pub batch_size: Option<u32>,
    /// Closes the cursor after the first batch.
    pub single_batch: bool,
    /// The level of the read concern, such as `majority`; `None` uses the server's default.
    pub read_concern: Option<String>,
    /// The members that may answer.
    pub read_preference: ReadPreference,
    /// The server's own time limit, in milliseconds (`maxTimeMS`).
    pub max_time_ms: Option<u32>,
    /// More fields of the command, such as `noCursorTimeout` or `comment`.
    pub extra: Document,
}

impl FindSpec {
    /// All matching documents, with the server's defaults.
    pub fn new(db: impl Into<String>, collection: impl Into<String>) -> Self {
        FindSpec {
            db: db.into(),
            collection: collection.into(),
            projection: None,
            sort: None,
            hint: None,
            limit: None,
            batch_size: None,
            single_batch: false,
            read_concern: None,
            read_preference: ReadPreference::default(),
            max_time_ms: None,
            extra: Document::new(),
        }
    }

    /// Appends the elements of the body except the filter; the document stays open.
    pub(crate) fn append_find(&self, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
        append::string(out, "find", &self.collection);
        append::elements(out, &self.query_options().to_vec()?);
        if self.single_batch {
            append::boolean(out, "singleBatch", true);
        }
        if let Some(limit) = self.limit {
            append::int64(out, "limit", i64::from(limit));
        }
        if let Some(level) = &self.read_concern {
            append::nested(out, "readConcern", |out| append::string(out, "level", level));
        }
        append::elements(out, &self.extra.to_vec()?);
        self.append_common(out);
        Ok(())
    }

    /// Appends the elements of a getMore after its first; the document stays open.
    pub(crate) fn append_get_more(&self, out: &mut Vec<u8>) {
        append::string(out, "collection", &self.collection);
        self.append_common(out);
    }

    fn append_common(&self, out: &mut Vec<u8>) {
        if let Some(batch_size) = self.batch_size {
            append::int64(out, "batchSize", i64::from(batch_size));
        }
        self.read_preference.append(out);
        append::string(out, "$db", &self.db);
    }

    fn query_options(&self) -> Document {
        let mut options = Document::new();
        let mut insert = |key: &str, value: Option<Bson>| value.map(|value| options.insert(key, value));
        insert("projection", self.projection.clone().map(Bson::Document));
        insert("sort", self.sort.clone().map(Bson::Document));
        insert("hint", self.hint.clone());
        insert("maxTimeMS", self.max_time_ms.map(|limit| Bson::Int64(i64::from(limit))));
        options
    }
}
