//! Counts the fields of documents: their frequency, types and sizes. A fold that never connects.

use std::collections::{BTreeMap, HashMap};

use bson::RawDocument;
use bson::raw::{RawBsonRef, RawElement};
use bson::spec::{BinarySubtype, ElementType};
use plimsoll_measure::inspection::{Choice, Field, Inventory, Spread};

use super::walk::{Walked, walk};

/// The largest number of listed fields.
const FIELDS_MAX: usize = 500;

/// The fields of the documents read so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    documents: u64,
    document_bytes: Sizes,
    known: HashMap<String, usize>,
    fields: Vec<Seen>,
    cut: bool,
}

/// The counts of one field.
#[derive(Debug)]
struct Seen {
    path: String,
    /// The index of the enclosing field in the list; `None` for a field of the document itself.
    parent: Option<usize>,
    /// The last document with this field, counted from 1.
    last_document: u64,
    documents: u64,
    types: BTreeMap<&'static str, u64>,
    bytes: Sizes,
    dates_ms: Option<(i64, i64)>,
}

/// A field with dates, and its earliest and latest date, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dates {
    pub(super) path: String,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Sizes {
    fn add(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.min = if self.count == 0 { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
        self.sum += bytes;
        self.count += 1;
    }

    fn spread(&self) -> Spread {
        let mean = if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 };
        Spread { min: self.min, mean, max: self.max }
    }
}

impl Fields {
    /// Adds a document.
    pub(super) fn see(&mut self, document: &RawDocument) {
        self.documents += 1;
        self.document_bytes.add(document.as_bytes().len());
        let walked = walk(document, &mut |path: &str, element: &RawElement<'_>| self.add(path, element));
        self.cut |= walked == Walked::Cut;
    }

    fn add(&mut self, path: &str, element: &RawElement<'_>) {
        let Some(index) = self.index(path) else {
            self.cut = true;
            return;
        };
        let field = &mut self.fields[index];
        if field.last_document != self.documents {
            field.last_document = self.documents;
            field.documents += 1;
        }
        field.bytes.add(element.size());
        *field.types.entry(type_name(element)).or_default() += 1;
        if let Some(ms) = date_ms(element) {
            let (first, last) = field.dates_ms.unwrap_or((ms, ms));
            field.dates_ms = Some((first.min(ms), last.max(ms)));
        }
    }

    /// The field's index in the list; `None` if the list is full.
    fn index(&mut self, path: &str) -> Option<usize> {
        if let Some(index) = self.known.get(path) {
            return Some(*index);
        }
        if self.fields.len() == FIELDS_MAX {
            return None;
        }
        let index = self.fields.len();
        let parent = parent(path).and_then(|parent| self.known.get(parent).copied());
        self.known.insert(path.to_owned(), index);
        self.fields.push(Seen {
            path: path.to_owned(),
            parent,
            last_document: 0,
            documents: 0,
            types: BTreeMap::new(),
            bytes: Sizes::default(),
            dates_ms: None,
        });
        Some(index)
    }

    /// The fields with dates.
    pub(super) fn dates(&self) -> Vec<Dates> {
        let dates = self.fields.iter().filter_map(|field| {
            field.dates_ms.map(|(first_ms, last_ms)| Dates { path: field.path.clone(), first_ms, last_ms })
        });
        dates.collect()
    }

    /// The inventory; each field follows its enclosing field.
    pub(super) fn finish(&self, choice: Choice) -> Inventory {
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        order.sort_by_cached_key(|index| self.places(*index));
        Inventory {
            documents: self.documents,
            choice,
            document_bytes: self.document_bytes.spread(),
            fields: order.into_iter().map(|index| self.field(&self.fields[index])).collect(),
            cut: self.cut,
        }
    }

    /// The indexes of the fields that enclose a field, the outermost first, then the field's index.
    fn places(&self, index: usize) -> Vec<usize> {
        let around = |index: &usize| self.fields[*index].parent;
        let mut places: Vec<_> = std::iter::successors(Some(index), around).collect();
        places.reverse();
        places
    }

    fn field(&self, seen: &Seen) -> Field {
        Field {
            path: seen.path.clone(),
            documents: seen.documents,
            share: seen.documents as f64 / self.documents.max(1) as f64,
            values: seen.bytes.count,
            types: seen.types.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            bytes: seen.bytes.spread(),
        }
    }
}

/// The path of the enclosing value: `a.b` encloses `a.b[]`, and `a` encloses `a.b`.
fn parent(path: &str) -> Option<&str> {
    path.strip_suffix("[]").or_else(|| path.rsplit_once('.').map(|(parent, _)| parent))
}

fn date_ms(element: &RawElement<'_>) -> Option<i64> {
    let value = (element.element_type() == ElementType::DateTime).then(|| element.value().ok())??;
    value.as_datetime().map(bson::DateTime::timestamp_millis)
}

/// The name of a value's type in MongoDB's `$type`; for binary data, its subtype.
fn type_name(element: &RawElement<'_>) -> &'static str {
    match element.element_type() {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => binary_name(element),
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MaxKey => "maxKey",
        ElementType::MinKey => "minKey",
    }
}

fn binary_name(element: &RawElement<'_>) -> &'static str {
    let Ok(RawBsonRef::Binary(binary)) = element.value() else { return "binData" };
    match binary.subtype {
        BinarySubtype::Uuid | BinarySubtype::UuidOld => "binData (UUID)",
        BinarySubtype::Encrypted => "binData (encrypted)",
        BinarySubtype::Vector => "binData (vector)",
        _ => "binData",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    fn inventory(documents: &[RawDocumentBuf]) -> Inventory {
        let mut fields = Fields::default();
        documents.iter().for_each(|document| fields.see(document));
        fields.finish(Choice::All)
    }

    #[test]
    fn a_field_has_its_share_its_types_and_its_sizes() {
        let found = inventory(&[rawdoc! {"a": 1, "b": "xy"}, rawdoc! {"a": 2_i64}, rawdoc! {"b": "xyz"}]);
        let a = &found.fields[0];
        assert_eq!((a.path.as_str(), a.documents, a.values), ("a", 2, 2));
        assert_eq!(a.share, 2.0 / 3.0);
        assert_eq!(a.types, BTreeMap::from([("int".to_owned(), 1), ("long".to_owned(), 1)]));
        assert_eq!(a.bytes, Spread { min: 4, mean: 6.0, max: 8 });
        // A string takes four bytes for its length and one for its end.
        assert_eq!(found.fields[1].bytes, Spread { min: 7, mean: 7.5, max: 8 });
        assert_eq!(found.document_bytes.min, rawdoc! {"b": "xyz"}.as_bytes().len() as u64);
    }

    #[test]
    fn an_array_counts_once_per_document_and_each_element_counts() {
        let found = inventory(&[rawdoc! {"tags": ["a", "b", 1]}, rawdoc! {"tags": []}]);
        let counts: Vec<_> =
            found.fields.iter().map(|field| (field.path.as_str(), field.documents, field.values)).collect();
        assert_eq!(counts, [("tags", 2, 2), ("tags[]", 1, 3)]);
    }

    #[test]
    fn a_late_field_follows_its_enclosing_field() {
        let found = inventory(&[rawdoc! {"a": {"x": 1}, "b": 1}, rawdoc! {"a": {"y": {"z": 1}}}]);
        let paths: Vec<_> = found.fields.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["a", "a.x", "a.y", "a.y.z", "b"]);
    }

    #[test]
    fn at_most_five_hundred_fields_are_listed() {
        let many: bson::Document =
            (0..600).map(|index| (format!("f{index}"), bson::Bson::Int32(1))).collect();
        let found = inventory(&[RawDocumentBuf::try_from(many).unwrap()]);
        assert_eq!((found.fields.len(), found.cut), (FIELDS_MAX, true));
        assert!(!inventory(&[rawdoc! {"a": 1}]).cut);
    }

    #[test]
    fn dates_are_found_inside_arrays_too() {
        let at = |ms| bson::DateTime::from_millis(ms);
        let mut fields = Fields::default();
        fields.see(&rawdoc! {"at": at(5), "log": [{"at": at(9)}, {"at": at(-2)}]});
        fields.see(&rawdoc! {"at": at(3)});
        let dates = |path: &str, first_ms, last_ms| Dates { path: path.into(), first_ms, last_ms };
        assert_eq!(fields.dates(), [dates("at", 3, 5), dates("log[].at", -2, 9)]);
    }

    #[test]
    fn every_type_has_its_mongodb_name() {
        let uuid = bson::Binary { subtype: BinarySubtype::Uuid, bytes: vec![0; 16] };
        let found = inventory(&[rawdoc! {
            "a": 1.0, "b": "s", "c": {}, "d": [], "e": uuid, "f": bson::oid::ObjectId::new(), "g": true,
            "h": bson::DateTime::from_millis(0), "i": RawBsonRef::Null, "j": 1, "k": 1_i64,
            "l": bson::Timestamp {time: 1, increment: 1}, "m": RawBsonRef::MinKey,
        }]);
        let types: Vec<_> = found.fields.iter().filter_map(|field| field.types.keys().next()).collect();
        assert_eq!(
            types,
            [
                "double",
                "string",
                "object",
                "array",
                "binData (UUID)",
                "objectId",
                "bool",
                "date",
                "null",
                "int",
                "long",
                "timestamp",
                "minKey"
            ]
        );
    }
}
