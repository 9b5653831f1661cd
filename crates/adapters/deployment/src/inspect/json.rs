//! Prints a document as relaxed Extended JSON, within limits.

use bson::raw::{RawBsonRef, RawElement};
use bson::{Bson, Document, RawDocument};
use plimsoll_measure::inspection::Value;

/// The largest nesting depth; MongoDB allows a hundred levels.
pub(super) const DEPTH_MAX: usize = 100;

/// The largest shown size of a definition (the keys of an index, a filter), in bytes.
const DEFINITION_BYTES_MAX: usize = 4096;

/// Prints the document, and counts the omitted fields: fields that would exceed `bytes_max` stored bytes, nest too deep, or are
/// invalid BSON.
pub(super) fn shown(document: &RawDocument, bytes_max: usize) -> (Value, u64) {
    let (mut kept, mut bytes, mut left_out) = (Document::new(), 0, 0);
    for element in document.iter_elements() {
        let Ok(element) = element else {
            left_out += 1;
            break;
        };
        let size = element.size() + element.key().len() + 2;
        match value(&element).filter(|_| bytes + size <= bytes_max) {
            None => left_out += 1,
            Some(value) => {
                bytes += size;
                kept.insert(element.key().as_str(), value);
            }
        }
    }
    (Bson::Document(kept).into_relaxed_extjson(), left_out)
}

/// A definition in one line, such as `{"at":-1}`.
pub(super) fn text(document: &RawDocument) -> String {
    shown(document, DEFINITION_BYTES_MAX).0.to_string()
}

fn value(element: &RawElement<'_>) -> Option<Bson> {
    let is_shallow = element.value().map_or(true, |value| is_shallow(value, DEPTH_MAX));
    Bson::try_from(element.value_utf8_lossy().ok().filter(|_| is_shallow)?).ok()
}

/// Whether a value has at most this many levels.
fn is_shallow(value: RawBsonRef<'_>, levels: usize) -> bool {
    let inside = match value {
        RawBsonRef::Document(document) => document.iter_elements(),
        RawBsonRef::Array(array) => array.iter_elements(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.scope.iter_elements(),
        _ => return true,
    };
    let mut values = inside.map_while(Result::ok).filter_map(|element| element.value().ok());
    levels > 0 && values.all(|value| is_shallow(value, levels - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    #[test]
    fn a_document_is_shown_whole_and_in_its_order() {
        let (shown, left_out) =
            shown(&rawdoc! {"z": 1, "a": [1.5, "x"], "at": bson::DateTime::from_millis(0)}, 1024);
        assert_eq!(shown.to_string(), r#"{"z":1,"a":[1.5,"x"],"at":{"$date":"1970-01-01T00:00:00Z"}}"#);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn a_field_above_the_size_limit_is_left_out_and_counted() {
        let (shown, left_out) = shown(&rawdoc! {"a": 1, "vector": "x".repeat(2000), "b": 2}, 1024);
        assert_eq!((shown.to_string().as_str(), left_out), (r#"{"a":1,"b":2}"#, 1));
    }

    #[test]
    fn a_hostile_depth_is_left_out() {
        let mut deep = rawdoc! {"x": 1};
        for _ in 0..20_000 {
            let mut above = RawDocumentBuf::new();
            above.append(bson::cstr!("a"), deep);
            deep = above;
        }
        let (shown, left_out) = shown(&deep, 16 << 20);
        assert_eq!((shown.to_string().as_str(), left_out), ("{}", 1));
    }
}
