//! Scans the elements of a BSON document by their byte positions, without trusting any of them.

use std::ops::Range;

/// One element: its type byte and where its key and its value are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) kind: u8,
    /// Where the element begins: its type byte.
    pub(crate) start: usize,
    /// The key without its NUL.
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The elements of the document that lies at `document` in `bytes`, as far as they make sense.
pub(crate) fn elements(bytes: &[u8], document: Range<usize>) -> impl Iterator<Item = Element> + use<'_> {
    let mut at = document.start + 4;
    let end = document.end.saturating_sub(1).min(bytes.len());
    std::iter::from_fn(move || {
        let element = element(bytes, at, end)?;
        at = element.value.end;
        Some(element)
    })
}

/// Where the element of that key is, in a whole document.
pub(crate) fn find(bytes: &[u8], key: &[u8]) -> Option<Element> {
    elements(bytes, 0..bytes.len()).find(|element| &bytes[element.key.clone()] == key)
}

fn element(bytes: &[u8], start: usize, end: usize) -> Option<Element> {
    let kind = *bytes.get(start..end)?.first()?;
    let key = start + 1;
    let value = key + nul(bytes.get(key..end)?)? + 1;
    let len = value_len(kind, bytes.get(value..end)?)?;
    let value = value..value.checked_add(len).filter(|&value_end| value_end <= end)?;
    Some(Element { kind, start, key: key..value.start - 1, value })
}

fn nul(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == 0)
}

fn int32(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

/// The length of a value by its type (bsonspec.org, version 1.1).
fn value_len(kind: u8, bytes: &[u8]) -> Option<usize> {
    match kind {
        // undefined, null, max key, min key
        0x06 | 0x0a | 0x7f | 0xff => Some(0),
        // boolean
        0x08 => Some(1),
        // 32-bit integer
        0x10 => Some(4),
        // double, date, timestamp, 64-bit integer
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        // ObjectId
        0x07 => Some(12),
        // decimal
        0x13 => Some(16),
        // document, array, JavaScript with scope: the length counts itself
        0x03 | 0x04 | 0x0f => int32(bytes).filter(|&len| len >= 5),
        // string, JavaScript, symbol: the length counts the NUL
        0x02 | 0x0d | 0x0e => int32(bytes).filter(|&len| len >= 1).map(|len| 4 + len),
        // binary: the length leaves out the subtype
        0x05 => int32(bytes).map(|len| 5 + len),
        // DBPointer: a string and an ObjectId
        0x0c => int32(bytes).map(|len| 4 + len + 12),
        // regular expression: two texts closed by NUL
        0x0b => {
            let pattern = nul(bytes)? + 1;
            Some(pattern + nul(bytes.get(pattern..)?)? + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::oid::ObjectId;
    use bson::{Bson, doc};
    use proptest::prelude::*;

    fn regex() -> Bson {
        let text = |text: &str| text.to_owned().try_into().unwrap();
        Bson::RegularExpression(bson::Regex { pattern: text("a.b"), options: text("i") })
    }

    fn every_type() -> Vec<u8> {
        let document = doc! {
            "double": 1.5, "string": "text", "document": {"a": 1}, "array": [1, 2],
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1, 2] },
            "oid": ObjectId::from_bytes([7; 12]), "bool": true, "date": bson::DateTime::from_millis(5),
            "null": Bson::Null, "regex": regex(),
            "js": Bson::JavaScriptCode("x".into()), "symbol": Bson::Symbol("s".into()), "i32": 7, "i64": 8_i64,
            "timestamp": bson::Timestamp { time: 1, increment: 2 }, "max": Bson::MaxKey,
            "decimal": bson::Decimal128::from_bytes([0; 16]), "last": 1,
        };
        document.to_vec().unwrap()
    }

    #[test]
    fn every_type_is_passed_over_to_the_next() {
        let bytes = every_type();
        assert_eq!(elements(&bytes, 0..bytes.len()).count(), 18);
        let last = find(&bytes, b"last").unwrap();
        assert_eq!((last.kind, &bytes[last.value]), (0x10, &1_i32.to_le_bytes()[..]));
    }

    proptest! {
        #[test]
        fn random_changes_never_lead_outside(at in 0_usize..200, byte in any::<u8>()) {
            let mut bytes = every_type();
            let at = at % bytes.len();
            bytes[at] = byte;
            let end = elements(&bytes, 0..bytes.len()).map(|element| element.value.end).max().unwrap_or(0);
            prop_assert!(end < bytes.len());
        }
    }
}
