//! Stores the documents of one collection in insertion order, indexed by `_id`.

use std::collections::{HashMap, HashSet};

use bson::oid::ObjectId;
use bson::{Bson, RawDocument, doc};
use plimsoll_element as element;

/// The memory cost of a document besides its own bytes and its key: two pointers with lengths, an index
/// entry, and the allocator's overhead.
const OVERHEAD: usize = 96;

/// The index on `_id`.
pub(crate) const ID_INDEX: &str = "_id_";

#[derive(Debug, Default)]
pub(crate) struct Collection {
    documents: Vec<Box<[u8]>>,
    index: HashMap<Box<[u8]>, usize>,
    /// The names and keys of the indexes, without the `_id` index.
    pub(crate) indexes: Vec<(String, Box<[u8]>)>,
    /// The positions of documents that the newest index lacks.
    unindexed: HashSet<usize>,
}

impl Collection {
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// The document at a position in insertion order.
    pub(crate) fn get(&self, position: usize) -> Option<&[u8]> {
        self.documents.get(position).map(AsRef::as_ref)
    }

    /// The position of the document with a key.
    pub(crate) fn position(&self, key: &[u8]) -> Option<usize> {
        self.index.get(key).copied()
    }

    /// Whether a document has this `_id`.
    pub(crate) fn has_id(&self, id: &Bson) -> bool {
        self.position_of(id).is_some()
    }

    /// The position of the document with this `_id`.
    pub(crate) fn position_of(&self, id: &Bson) -> Option<usize> {
        let document = doc! { "_id": id.clone() }.to_vec().unwrap_or_default();
        self.position(&key(&document)?)
    }

    /// Drops the last document from the newest index.
    pub(crate) fn unindex_last(&mut self) {
        self.unindexed.extend(self.documents.len().checked_sub(1));
    }

    /// The name of the newest index.
    pub(crate) fn newest_index(&self) -> &str {
        self.indexes.last().map_or(ID_INDEX, |(name, _)| name)
    }

    /// Whether an index has the document at a position.
    pub(crate) fn is_indexed(&self, name: &str, position: usize) -> bool {
        name != self.newest_index() || !self.unindexed.contains(&position)
    }

    /// Whether an index with this name exists.
    pub(crate) fn has_index(&self, name: &str) -> bool {
        name == ID_INDEX || self.indexes.iter().any(|(known, _)| known == name)
    }

    /// Replaces the document at a position by another with the same key.
    pub(crate) fn replace(&mut self, position: usize, document: Box<[u8]>) {
        if let Some(stored) = self.documents.get_mut(position) {
            *stored = document;
        }
    }

    /// Removes the document at a position; the last document takes its place.
    pub(crate) fn remove(&mut self, position: usize) -> Option<Box<[u8]>> {
        let last = self.documents.len().checked_sub(1).filter(|last| position <= *last)?;
        let removed = self.documents.swap_remove(position);
        self.index.remove(&key(&removed)?);
        if let Some(moved) = self.documents.get(position).and_then(|moved| key(moved)) {
            self.index.insert(moved, position);
        }
        self.unindexed.remove(&position);
        if self.unindexed.remove(&last) && last != position {
            self.unindexed.insert(position);
        }
        Some(removed)
    }

    /// Stores a document under a new key.
    pub(crate) fn store(&mut self, key: Box<[u8]>, document: Box<[u8]>) {
        self.index.insert(key, self.documents.len());
        self.documents.push(document);
    }
}

/// The bytes of memory that a document takes.
pub(crate) fn cost(key: &[u8], document: &[u8]) -> u64 {
    u64::try_from(key.len() + document.len() + OVERHEAD).unwrap_or(u64::MAX)
}

/// The key of a document: the type byte and the bytes of its `_id`. Unlike in MongoDB, numbers of different
/// types are different keys.
pub(crate) fn key(document: &[u8]) -> Option<Box<[u8]>> {
    element::find(document, b"_id").map(|id| key_of(id.kind, id.value))
}

pub(crate) fn key_of(kind: u8, value: &[u8]) -> Box<[u8]> {
    [&[kind], value].concat().into_boxed_slice()
}

/// Copies a document with another `_id`, which comes first.
pub(crate) fn with_id(document: &[u8], id: ObjectId) -> Box<[u8]> {
    let old = element::find(document, b"_id").map_or(4..4, |id| id.range_in(document));
    let mut out = Vec::with_capacity(document.len() + 17);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(b"\x07_id\0");
    out.extend_from_slice(&id.bytes());
    out.extend_from_slice(&document[4..old.start]);
    out.extend_from_slice(&document[old.end..]);
    let len = i32::try_from(out.len()).unwrap_or(i32::MAX);
    out[..4].copy_from_slice(&len.to_le_bytes());
    out.into_boxed_slice()
}

/// A document with nothing but its `_id`.
pub(crate) fn only_id(document: &[u8]) -> Vec<u8> {
    let id = RawDocument::from_bytes(document).ok().and_then(|raw| raw.get("_id").ok().flatten());
    let id = id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
    doc! {"_id": id}.to_vec().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::Document;

    #[test]
    fn a_new_id_comes_first_wherever_the_old_id_was() {
        let id = ObjectId::from_bytes([3; 12]);
        for document in [doc! {"_id": "x", "a": 1}, doc! {"a": 1, "_id": {"b": 2}}, doc! {"a": 1}] {
            let renamed = with_id(&document.to_vec().unwrap(), id);
            assert_eq!(Document::from_reader(&*renamed).unwrap(), doc! {"_id": id, "a": 1});
        }
    }

    #[test]
    fn a_removed_document_leaves_all_others_in_reach() {
        let bytes = |id: i32| doc! {"_id": id}.to_vec().unwrap().into_boxed_slice();
        let mut collection = Collection::default();
        (0..4).for_each(|id| collection.store(key(&bytes(id)).unwrap(), bytes(id)));
        collection.unindex_last();
        assert_eq!(collection.remove(1), Some(bytes(1)));
        let position = |id: i32| collection.position(&key(&bytes(id)).unwrap());
        assert_eq!([0, 1, 2, 3].map(position), [Some(0), None, Some(2), Some(1)]);
        assert!((0..3).all(|at| collection.is_indexed(ID_INDEX, at) == (at != 1)));
        assert_eq!((collection.remove(3), collection.remove(2)), (None, Some(bytes(2))));
        assert_eq!(collection.len(), 2);
    }

    #[test]
    fn ids_of_other_types_are_other_keys() {
        let key = |document: Document| key(&document.to_vec().unwrap());
        assert_eq!(key(doc! {"_id": 1, "a": 1}), key(doc! {"a": 2, "_id": 1}));
        assert_ne!(key(doc! {"_id": 1}), key(doc! {"_id": "1"}));
        assert_eq!(key(doc! {"a": 1}), None);
    }
}
