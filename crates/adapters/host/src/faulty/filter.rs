//! Parses the filters that a faulty server supports: none, one `_id`, or a range of `_id`s.

use std::ops::Bound;

use bson::RawDocument;
use bson::raw::RawBsonRef;
use plimsoll_element::{kind, valid};

use super::collection::{self, Collection};

/// Selects documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// All documents.
    All,
    /// The document with this key.
    Key(Box<[u8]>),
    /// The documents with a key in this range, of the same type as its ends. Byte order equals key order only
    /// for ObjectIds, so other types are refused.
    Range(Bound<Box<[u8]>>, Bound<Box<[u8]>>),
}

/// A filter that a faulty server does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported;

impl Filter {
    /// The number of documents that the filter selects in a collection.
    pub(crate) fn count_in(&self, collection: &Collection) -> usize {
        match self {
            Self::All => collection.len(),
            Self::Key(key) => usize::from(collection.position(key).is_some()),
            Self::Range(..) => (0..collection.len())
                .filter(|&position| collection.get(position).is_some_and(|it| self.matches(it)))
                .count(),
        }
    }

    /// Reads a filter: `{}`, `{_id: x}`, `{_id: {$eq: x}}`, `{_id: {$gt/$gte/$lt/$lte: ObjectId}}`.
    ///
    /// # Errors
    /// [`Unsupported`] for any other.
    pub(crate) fn parse(filter: &RawDocument) -> Result<Self, Unsupported> {
        let mut elements = valid(filter.as_bytes());
        let Some(element) = elements.next() else { return Ok(Filter::All) };
        if element.key != b"_id" || elements.next().is_some() {
            return Err(Unsupported);
        }
        match filter.get("_id") {
            Ok(Some(RawBsonRef::Document(inner))) if has_operators(inner) => Filter::parse_operators(inner),
            Ok(Some(_)) => Ok(Filter::Key(collection::key_of(element.kind, element.value))),
            _ => Err(Unsupported),
        }
    }

    fn parse_operators(operators: &RawDocument) -> Result<Self, Unsupported> {
        let (mut low, mut high) = (Bound::Unbounded, Bound::Unbounded);
        for element in valid(operators.as_bytes()) {
            let key = collection::key_of(element.kind, element.value);
            match (element.key, element.kind) {
                (b"$eq", _) => return Ok(Filter::Key(key)),
                (b"$gt", kind::OBJECT_ID) => low = Bound::Excluded(key),
                (b"$gte", kind::OBJECT_ID) => low = Bound::Included(key),
                (b"$lt", kind::OBJECT_ID) => high = Bound::Excluded(key),
                (b"$lte", kind::OBJECT_ID) => high = Bound::Included(key),
                _ => return Err(Unsupported),
            }
        }
        Ok(Filter::Range(low, high))
    }

    /// Whether the filter selects a document.
    pub(crate) fn matches(&self, document: &[u8]) -> bool {
        match self {
            Filter::All => true,
            Filter::Key(key) => collection::key(document).as_ref() == Some(key),
            Filter::Range(low, high) => {
                let key = collection::key(document).filter(|key| key.first() == Some(&kind::OBJECT_ID));
                key.is_some_and(|key| std::ops::RangeBounds::contains(&(low.as_ref(), high.as_ref()), &key))
            }
        }
    }
}

fn has_operators(document: &RawDocument) -> bool {
    matches!(document.iter().next(), Some(Ok((key, _))) if key.as_str().starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;
    use bson::{doc, rawdoc};

    fn oid(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 12])
    }

    fn check(filter: &RawDocument, expected: &[u8]) {
        let filter = Filter::parse(filter).unwrap();
        let taken = (0..5).filter(|&byte| filter.matches(&doc! {"_id": oid(byte)}.to_vec().unwrap()));
        assert_eq!(taken.collect::<Vec<u8>>(), expected);
    }

    #[test]
    fn a_filter_selects_the_matching_documents() {
        check(&rawdoc! {}, &[0, 1, 2, 3, 4]);
        check(&rawdoc! {"_id": oid(2)}, &[2]);
        check(&rawdoc! {"_id": {"$eq": oid(2)}}, &[2]);
        check(&rawdoc! {"_id": {"$gte": oid(1), "$lt": oid(3)}}, &[1, 2]);
        check(&rawdoc! {"_id": {"$gt": oid(1)}}, &[2, 3, 4]);
        check(&rawdoc! {"_id": "text"}, &[]);
    }

    #[test]
    fn unsupported_filters_are_refused() {
        for filter in [rawdoc! {"x": 1}, rawdoc! {"_id": 1, "x": 1}, rawdoc! {"_id": {"$gt": 5}}] {
            assert_eq!(Filter::parse(&filter), Err(Unsupported));
        }
    }
}
