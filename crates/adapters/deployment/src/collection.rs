//! Prepares, measures and drops a collection.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_measure::inspection::Size;
use plimsoll_wire::{Connection, Error as WireError, ServerError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cursor::{Listing, Step};
use crate::error::is_missing_namespace;
use crate::inspect::sizes;
use crate::namespace::Namespace;
use crate::read::flag;

/// The treatment of a collection that is not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// The run does not start.
    #[default]
    Refuse,
    /// Its documents stay unchanged.
    Append,
    /// The collection is dropped first.
    Drop,
}

/// The state of a collection before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialState {
    /// The number of existing documents, which stay.
    pub documents: u64,
    /// The reason why the server may remove documents by itself, if any: a capped collection, or expiring documents.
    pub vanishing: Option<String>,
}

/// The reason why a collection is unusable for a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection is not empty.
    #[error(
        "{namespace} is not empty ({documents} documents): name another collection, or use `existing: append` to keep \
         them or `existing: drop` to drop the collection first"
    )]
    NotEmpty {
        /// The collection.
        namespace: Namespace,
        /// The number of its documents.
        documents: u64,
    },
    /// The server refused the command, or the connection failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The server's answer is malformed.
    #[error("the server's answer to {0} is malformed; is it a MongoDB server?")]
    Answer(&'static str),
}

/// Checks that the collection is empty, or handles its documents as `existing` requires.
///
/// # Errors
/// [`Error::NotEmpty`] if documents exist and `existing` refuses them; else the server's or the connection's error.
pub async fn prepare(
    connection: &mut Connection,
    namespace: &Namespace,
    existing: Existing,
) -> Result<InitialState, Error> {
    let documents = count(connection, namespace).await?;
    if documents > 0 && existing == Existing::Refuse {
        return Err(Error::NotEmpty { namespace: namespace.clone(), documents });
    }
    if existing == Existing::Drop {
        drop_collection(connection, namespace).await?;
        return Ok(InitialState::default());
    }
    Ok(InitialState { documents, vanishing: vanishing(connection, namespace).await? })
}

/// Creates indexes and waits until they are built; keeps existing indexes.
///
/// # Errors
/// The server's refusal, for example because documents break a unique index.
pub async fn create_indexes(
    connection: &mut Connection,
    namespace: &Namespace,
    keys: &[Document],
) -> Result<(), Error> {
    let index = |key: &Document| {
        let parts: Vec<_> = key.iter().map(|(field, order)| format!("{field}_{}", plain(order))).collect();
        bson::doc! {"key": key.clone(), "name": parts.join("_")}
    };
    let indexes: Vec<_> = keys.iter().map(index).collect();
    let command = bson::doc! {"createIndexes": &namespace.collection, "indexes": indexes};
    let raw = RawDocumentBuf::try_from(&command).map_err(|_| Error::Answer("createIndexes"))?;
    Ok(connection.command(&namespace.db, &raw).await.map(drop)?)
}

/// The order in an index's name, as drivers write it: `1`, `-1`, `hashed`.
fn plain(order: &Bson) -> String {
    match order {
        Bson::String(text) => text.clone(),
        other => other.clone().into_relaxed_extjson().to_string(),
    }
}

/// Counts documents by the collection's metadata; 0 if the collection does not exist.
///
/// # Errors
/// The server's or the connection's error.
pub async fn count(connection: &mut Connection, namespace: &Namespace) -> Result<u64, Error> {
    let reply = connection.command(&namespace.db, &rawdoc! {"count": namespace.collection.as_str()}).await;
    let reply = match reply {
        Err(WireError::Server(error)) if is_missing_namespace(&error) => return Ok(0),
        other => document(&other?, "count")?,
    };
    let number = reply.get_i64("n").or_else(|_| reply.get_i32("n").map(i64::from));
    let number = number.or_else(|_| reply.get_f64("n").map(|number| number as i64));
    number.map(|number| number.max(0) as u64).map_err(|_| Error::Answer("count"))
}

/// Finds the smallest and the largest `_id` of the collection, if it holds documents.
///
/// # Errors
/// The server's or the connection's error.
pub async fn ends(connection: &mut Connection, namespace: &Namespace) -> Result<Option<[Bson; 2]>, Error> {
    let mut ends = Vec::new();
    for order in [1_i32, -1] {
        let find = rawdoc! {
            "find": namespace.collection.as_str(), "sort": {"_id": order}, "projection": {"_id": 1}, "limit": 1,
            "singleBatch": true,
        };
        let reply = document(&connection.command(&namespace.db, &find).await?, "find")?;
        ends.extend(first_batch(&reply).into_iter().next().and_then(|mut first| first.remove("_id")));
    }
    Ok(<[Bson; 2]>::try_from(ends).ok())
}

/// Whether the collection exists, empty or not.
///
/// # Errors
/// The server's or the connection's error.
pub async fn exists(connection: &mut Connection, namespace: &Namespace) -> Result<bool, Error> {
    let listing = Listing::of(&namespace.db, &namespace.collection);
    let command = listing.command_of_names();
    Ok(!listed(connection, listing, command).await?.is_empty())
}

/// The names of all collections of a database. Empty if the database does not exist.
///
/// # Errors
/// The server's or the connection's error.
pub async fn names(connection: &mut Connection, db: &str) -> Result<Vec<String>, Error> {
    let listing = Listing::all(db);
    let command = listing.command_of_names();
    let entries = listed(connection, listing, command).await?;
    Ok(entries.iter().filter_map(|entry| entry.get_str("name").ok().map(str::to_owned)).collect())
}

/// The server's list entry of a collection: name, type and options. `None` if the collection does not exist.
///
/// # Errors
/// The server's or the connection's error.
pub async fn entry(
    connection: &mut Connection,
    namespace: &Namespace,
) -> Result<Option<RawDocumentBuf>, Error> {
    let listing = Listing::of(&namespace.db, &namespace.collection);
    let command = listing.command();
    Ok(listed(connection, listing, command).await?.into_iter().next())
}

async fn listed(
    connection: &mut Connection,
    mut listing: Listing<'_>,
    mut command: RawDocumentBuf,
) -> Result<Vec<RawDocumentBuf>, Error> {
    loop {
        match listing.read(&connection.command(listing.db(), &command).await?) {
            Step::Ask(next) => command = next,
            Step::Done(found) => return Ok(found),
            Step::Malformed => return Err(Error::Answer("listCollections")),
        }
    }
}

/// Measures the collection, as far as the server reports its sizes.
///
/// # Errors
/// The server's or the connection's error.
pub async fn size(connection: &mut Connection, namespace: &Namespace) -> Result<Size, Error> {
    let command = rawdoc! {"collStats": namespace.collection.as_str()};
    let stats = connection.command(&namespace.db, &command).await?;
    Ok(Size::of(&sizes(&stats)))
}

/// Drops the collection, if it exists.
///
/// # Errors
/// The server's or the connection's error.
pub async fn drop_collection(connection: &mut Connection, namespace: &Namespace) -> Result<(), Error> {
    let dropped = connection.command(&namespace.db, &rawdoc! {"drop": namespace.collection.as_str()}).await;
    match dropped.map(|reply| write_error(&reply)) {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(WireError::Server(error)) if is_missing_namespace(&error) => Ok(()),
        Ok(Some(error)) => Err(Error::Wire(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// The first write error of a reply that is otherwise a success.
fn write_error(reply: &RawDocument) -> Option<ServerError> {
    let error = reply.get_array("writeErrors").ok()?.into_iter().next()?.ok()?.as_document()?;
    let text = |key| error.get_str(key).unwrap_or_default().to_owned();
    let code = error.get_i32("code").unwrap_or_default();
    Some(ServerError { code, name: text("codeName"), message: text("errmsg"), labels: Vec::new() })
}

/// Returns the reason why the server may remove documents by itself: the collection is capped, or an index expires them.
///
/// # Errors
/// The server's or the connection's error.
pub async fn vanishing(connection: &mut Connection, namespace: &Namespace) -> Result<Option<String>, Error> {
    let capped = entry(connection, namespace).await?.is_some_and(|collection| {
        collection.get_document("options").is_ok_and(|options| flag(options, "capped"))
    });
    if capped {
        return Ok(Some("the collection is capped: the server removes its oldest documents".into()));
    }
    let indexes = indexes(connection, namespace).await?;
    let expiring = indexes.into_iter().find(|index| index.contains_key("expireAfterSeconds"));
    Ok(expiring.map(|index| {
        format!("the index {} lets documents expire", index.get_str("name").unwrap_or("without a name"))
    }))
}

/// Whether a collection has a unique index besides that of `_id`. A missing collection has none.
///
/// # Errors
/// The server's or the connection's error.
pub async fn has_unique_index(connection: &mut Connection, namespace: &Namespace) -> Result<bool, Error> {
    let is_of_id = |index: &Document| {
        index.get_document("key").is_ok_and(|key| key.len() == 1 && key.contains_key("_id"))
    };
    let is_unique = |index: &Document| index.get("unique").is_some_and(is_set);
    Ok(indexes(connection, namespace).await?.iter().any(|index| is_unique(index) && !is_of_id(index)))
}

/// Whether an option is true, or a number that servers take for true.
fn is_set(option: &Bson) -> bool {
    match option {
        Bson::Boolean(value) => *value,
        Bson::Int32(number) => *number != 0,
        Bson::Int64(number) => *number != 0,
        Bson::Double(number) => *number != 0.0,
        _ => false,
    }
}

/// The descriptions of the indexes of a collection. A missing collection has none.
async fn indexes(connection: &mut Connection, namespace: &Namespace) -> Result<Vec<Document>, Error> {
    let listed =
        connection.command(&namespace.db, &rawdoc! {"listIndexes": namespace.collection.as_str()}).await;
    match listed {
        Err(WireError::Server(error)) if is_missing_namespace(&error) => Ok(Vec::new()),
        other => Ok(first_batch(&document(&other?, "listIndexes")?)),
    }
}

fn document(reply: &RawDocumentBuf, command: &'static str) -> Result<Document, Error> {
    Document::try_from(reply.as_ref()).map_err(|_| Error::Answer(command))
}

fn first_batch(reply: &Document) -> Vec<Document> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch
        .map(|batch| batch.iter().filter_map(|item| item.as_document().cloned()).collect())
        .unwrap_or_default()
}
