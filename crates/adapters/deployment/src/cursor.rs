//! Reads the documents of a cursor, batch after batch, and lists the collections of a server.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc, rawdoc};

use crate::read;

/// Documents in one batch of a cursor. Some products need this number with each batch.
pub(crate) const BATCH: i32 = 100;
/// The most batches of a list of collections.
const BATCHES_MAX: u32 = 10_000;

/// A list of the collections of a database, or a search for one of them, read to its end. Some servers ignore the filter of a search,
/// and list every collection in batches.
#[derive(Debug)]
pub struct Listing<'a> {
    db: &'a str,
    /// The searched collection. `None` for all collections.
    name: Option<&'a str>,
    found: Vec<RawDocumentBuf>,
    batches: u32,
}

/// The next step of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this command, and read its reply.
    Ask(RawDocumentBuf),
    /// The list is at its end. Holds the entry of each collection: none if the searched collection does not exist.
    Done(Vec<RawDocumentBuf>),
    /// The reply has no list.
    Malformed,
}

impl<'a> Listing<'a> {
    /// A search for the collection `name` of the database `db`.
    pub const fn of(db: &'a str, name: &'a str) -> Self {
        Self { db, name: Some(name), found: Vec::new(), batches: 0 }
    }

    /// A list of all collections of the database `db`.
    pub const fn all(db: &'a str) -> Self {
        Self { db, name: None, found: Vec::new(), batches: 0 }
    }

    /// The database.
    pub const fn db(&self) -> &'a str {
        self.db
    }

    /// The first command, whose answer has the options of each collection.
    pub fn command(&self) -> RawDocumentBuf {
        match self.name {
            Some(name) => rawdoc! {"listCollections": 1, "filter": {"name": name}},
            None => rawdoc! {"listCollections": 1},
        }
    }

    /// The first command for a user who may only see the names of collections.
    pub fn command_of_names(&self) -> RawDocumentBuf {
        let mut command = self.command();
        command.append(cstr!("nameOnly"), true);
        command
    }

    /// Reads a reply. The cursor is read to its end, so that none stays open on the server.
    pub fn read(&mut self, reply: &RawDocument) -> Step {
        let Some((documents, cursor)) = batch(reply) else { return Step::Malformed };
        let is_wanted = |entry: &RawDocumentBuf| {
            self.name.is_none_or(|wanted| entry.get_str("name").is_ok_and(|name| name == wanted))
        };
        self.found.extend(documents.into_iter().filter(is_wanted));
        self.batches += 1;
        if cursor == 0 {
            return Step::Done(std::mem::take(&mut self.found));
        }
        let next = RawDocumentBuf::try_from(&more(cursor, &collection_of(reply, self.db)));
        next.ok().filter(|_| self.batches < BATCHES_MAX).map_or(Step::Malformed, Step::Ask)
    }
}

/// The command for the next batch of a cursor.
pub(crate) fn more(cursor: i64, collection: &str) -> Document {
    doc! {"getMore": cursor, "collection": collection, "batchSize": BATCH}
}

/// The collection that a cursor belongs to.
pub(crate) fn collection_of(reply: &RawDocument, db: &str) -> String {
    let namespace = read::document(reply, "cursor").and_then(|cursor| read::text(cursor, "ns"));
    let namespace = namespace.unwrap_or_default();
    let name = namespace.strip_prefix(db).and_then(|rest| rest.strip_prefix('.'));
    name.unwrap_or_default().to_owned()
}

/// A reply's documents, and the cursor for more, or 0; `None` if the reply is malformed.
pub(crate) fn batch(reply: &RawDocument) -> Option<(Vec<RawDocumentBuf>, i64)> {
    let cursor = read::document(reply, "cursor")?;
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).ok()?;
    let document = |item: Result<RawBsonRef<'_>, _>| item.ok()?.as_document().map(RawDocument::to_owned);
    let documents = batch.into_iter().map(document).collect::<Option<Vec<_>>>()?;
    Some((documents, read::integer(cursor, "id").unwrap_or(0)))
}
