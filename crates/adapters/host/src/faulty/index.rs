//! Creates and lists indexes. Only their names matter: each index has all documents in insertion order,
//! except those that the server dropped from it.

use bson::raw::RawBsonRef;
use bson::{RawDocument, doc};

use super::collection;
use super::store::Store;
use crate::serve::reply::{self, Batch};
use crate::serve::{Namespace, Request};

/// The limit of indexes of a collection, as in MongoDB.
const INDEXES_MAX: usize = 64;

pub(crate) fn create(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let namespace = request.namespace().to_string();
    store.create(&namespace);
    let Some(collection) = store.collections.get_mut(&namespace) else { return reply::ok(out) };
    for index in request.documents("indexes") {
        let (Ok(name), Ok(key)) = (index.get_str("name"), index.get_document("key")) else {
            return reply::error(out, 9, "FailedToParse", "an index needs a key and a name");
        };
        if collection.indexes.len() + 1 >= INDEXES_MAX {
            return reply::error(out, 67, "CannotCreateIndex", "a collection has at most 64 indexes");
        }
        if collection.indexes.iter().all(|(known, _)| known != name) {
            collection.indexes.push((name.to_owned(), key.as_bytes().into()));
        }
    }
    reply::ok(out);
}

pub(crate) fn list(store: &Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let Namespace { database, .. } = request.namespace();
    let Some(collection) = store.collections.get(&request.namespace().to_string()) else {
        return reply::error(out, 26, "NamespaceNotFound", "ns does not exist");
    };
    let mut batch = Batch::begin(out, "firstBatch");
    let id = doc! {"v": 2, "key": {"_id": 1}, "name": collection::ID_INDEX};
    let created = collection.indexes.iter().map(|(name, key)| {
        let key = RawDocument::from_bytes(key).ok().and_then(|key| bson::Document::try_from(key).ok());
        doc! {"v": 2, "key": key.unwrap_or_default(), "name": name}
    });
    for index in [id].into_iter().chain(created) {
        index.to_vec().iter().for_each(|index| batch.push(index));
    }
    batch.finish(0, Namespace { database, collection: "$cmd.listIndexes" });
}

/// The name in the hint of a find, if any; an index by its keys is unsupported.
pub(crate) fn hint(body: &RawDocument) -> Result<Option<String>, ()> {
    match body.get("hint") {
        Ok(Some(RawBsonRef::String(name))) => Ok(Some(name.to_owned())),
        Ok(None) => Ok(None),
        _ => Err(()),
    }
}
