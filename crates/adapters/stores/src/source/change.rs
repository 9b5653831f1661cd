//! Reads a change event as the change of one document.

use bson::{RawBsonRef, RawDocument};

/// The operations that change one document. All others change a collection or an index.
const OPERATIONS: [&str; 4] = ["insert", "update", "replace", "delete"];

/// The change of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    /// The document's `_id`, and its shard key.
    pub key: &'a [u8],
    /// The document after the change; none if it was deleted.
    pub document: Option<&'a [u8]>,
}

impl<'a> Change<'a> {
    /// The change of an event; `None` for a change of a collection or an index.
    ///
    /// # Errors
    /// The name of a part that the event lacks. Without it a delete, a replacement and a change of a collection look alike.
    pub(super) fn of(event: &'a RawDocument) -> Result<Option<Self>, &'static str> {
        let operation = event.get_str("operationType").map_err(|_| "operationType")?;
        let key = event.get_document("documentKey").ok();
        if !OPERATIONS.contains(&operation) {
            return if key.is_some() { Err("operationType") } else { Ok(None) };
        }
        let key = key.ok_or("documentKey")?.as_bytes();
        let document = match event.get("fullDocument").map_err(|_| "fullDocument")? {
            Some(RawBsonRef::Document(document)) => Some(document.as_bytes()),
            None | Some(RawBsonRef::Null) if operation == "delete" => None,
            // The server looked the document up after it was deleted.
            Some(RawBsonRef::Null) if operation == "update" => None,
            _ => return Err("fullDocument"),
        };
        Ok(Some(Self { key, document }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, RawDocumentBuf, doc};

    /// The key and the document, if the event changes a document.
    fn read(event: Document) -> Result<Option<(Document, Option<Document>)>, &'static str> {
        let event = RawDocumentBuf::try_from(&event).unwrap();
        let read = |bytes| Document::from_reader(bytes).unwrap();
        Ok(Change::of(&event)?.map(|change| (read(change.key), change.document.map(read))))
    }

    #[test]
    fn a_change_has_a_document_unless_it_was_deleted() {
        let key = || doc! {"_id": 1};
        let document = doc! {"_id": 1, "n": 2};
        for operation in ["insert", "update", "replace"] {
            let event =
                doc! {"operationType": operation, "documentKey": key(), "fullDocument": document.clone()};
            assert_eq!(read(event).unwrap(), Some((key(), Some(document.clone()))));
        }
        let deleted_since =
            doc! {"operationType": "update", "documentKey": key(), "fullDocument": Bson::Null};
        assert_eq!(read(deleted_since).unwrap(), Some((key(), None)));
        let deleted = doc! {"operationType": "delete", "documentKey": key()};
        assert_eq!(read(deleted).unwrap(), Some((key(), None)));
        assert_eq!(read(doc! {"operationType": "drop"}).unwrap(), None);
    }

    #[test]
    fn a_missing_part_is_named() {
        let key = || doc! {"_id": 1};
        for (event, part) in [
            (doc! {"documentKey": key(), "fullDocument": key()}, "operationType"),
            (doc! {"operationType": "other", "documentKey": key()}, "operationType"),
            (doc! {"operationType": "insert", "fullDocument": key()}, "documentKey"),
            (doc! {"operationType": "delete"}, "documentKey"),
            (doc! {"operationType": "insert", "documentKey": key()}, "fullDocument"),
            (doc! {"operationType": "update", "documentKey": key()}, "fullDocument"),
            (
                doc! {"operationType": "replace", "documentKey": key(), "fullDocument": Bson::Null},
                "fullDocument",
            ),
            (doc! {"operationType": "insert", "documentKey": key(), "fullDocument": 1}, "fullDocument"),
        ] {
            assert_eq!(read(event.clone()), Err(part), "{event}");
        }
    }
}
