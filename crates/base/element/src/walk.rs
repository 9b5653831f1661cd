//! Walks the elements of a BSON document from an untrusted source, one level deep.
//!
//! Checks every length before using it. Decodes a value only on demand and does not enter nested documents, so that deep
//! nesting in a hostile document costs nothing.

use std::ops::Range;

use crate::kind;

/// The minimum size of a document in bytes: its length and the closing NUL.
const DOCUMENT_LEN_MIN: usize = 5;

/// The fault of a document's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum Damage {
    /// A length exceeds its container or is too small.
    Length,
    /// A text, a name or a document has no final NUL.
    Terminator,
    /// BSON does not have this type byte.
    Kind,
    /// Documents are nested too deep.
    Depth,
}

impl Damage {
    /// The damage in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "a length that does not fit",
            Self::Terminator => "a final zero is missing",
            Self::Kind => "a type that BSON does not have",
            Self::Depth => "nested deeper than 100 levels",
        }
    }
}

/// The elements of one document, in order. The first invalid element ends the iteration.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

/// One element: its type byte, its key without the NUL, and its value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The type byte: one of [`kind`], or that of a rarer type.
    pub kind: u8,
    /// The key, which may not be UTF-8.
    pub key: &'a [u8],
    /// The value, as long as its type requires.
    pub value: &'a [u8],
}

/// The document at the start of `bytes`. Its length and its closing NUL are checked.
///
/// # Errors
/// The length is below five or exceeds `bytes`, or the document does not end in NUL.
#[inline]
pub fn document(bytes: &[u8]) -> Result<&[u8], Damage> {
    let len = counted(bytes, DOCUMENT_LEN_MIN)?;
    let document = bytes.get(..len).ok_or(Damage::Length)?;
    if document.last() == Some(&0) { Ok(document) } else { Err(Damage::Terminator) }
}

/// The valid elements at the start of a document; none if its length is wrong.
#[inline]
pub fn valid(document: &[u8]) -> impl Iterator<Item = Element<'_>> {
    Elements::of(document).unwrap_or(Elements { rest: &[] }).map_while(Result::ok)
}

/// The first element with this key, among the valid ones.
#[inline]
pub fn find<'a>(document: &'a [u8], key: &[u8]) -> Option<Element<'a>> {
    valid(document).find(|element| element.key == key)
}

/// The 32-bit little-endian integer at the start of `bytes`.
#[inline]
pub fn int32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

fn int64(bytes: &[u8]) -> Option<i64> {
    bytes.first_chunk().map(|chunk| i64::from_le_bytes(*chunk))
}

impl<'a> Elements<'a> {
    /// The elements of exactly one document or array.
    ///
    /// # Errors
    /// As [`document`]; or other bytes follow the document.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Result<Self, Damage> {
        if document(bytes)?.len() != bytes.len() {
            return Err(Damage::Length);
        }
        Ok(Elements { rest: &bytes[4..bytes.len() - 1] })
    }

    /// The number of bytes of the elements not yet read.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn split(&mut self) -> Result<Element<'a>, Damage> {
        let (&kind, rest) = self.rest.split_first().ok_or(Damage::Length)?;
        let end = rest.iter().position(|&byte| byte == 0).ok_or(Damage::Terminator)?;
        let (key, rest) = (&rest[..end], &rest[end + 1..]);
        let len = value_len(kind, rest)?;
        let value = rest.get(..len).ok_or(Damage::Length)?;
        self.rest = &rest[len..];
        Ok(Element { kind, key, value })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let element = self.split();
        if element.is_err() {
            self.rest = &[];
        }
        Some(element)
    }
}

/// The length of a value by its type.
#[inline]
fn value_len(kind: u8, bytes: &[u8]) -> Result<usize, Damage> {
    match kind {
        // undefined, null, max key, min key
        0x06 | 0x0a | 0x7f | 0xff => Ok(0),
        // boolean
        0x08 => Ok(1),
        // 32-bit integer
        0x10 => Ok(4),
        // double, date, timestamp, 64-bit integer
        0x01 | 0x09 | 0x11 | 0x12 => Ok(8),
        // ObjectId
        0x07 => Ok(12),
        // decimal
        0x13 => Ok(16),
        // document, array
        0x03 | 0x04 => Ok(document(bytes)?.len()),
        // string, JavaScript, symbol
        0x02 | 0x0d | 0x0e => Ok(4 + counted(bytes, 1)?),
        // binary: the length excludes the subtype
        0x05 => Ok(5 + counted(bytes, 0)?),
        // DBPointer: a string and an ObjectId
        0x0c => Ok(4 + counted(bytes, 1)? + 12),
        // JavaScript with scope: the length includes itself
        0x0f => counted(bytes, 14),
        // regular expression: two texts closed by NUL
        0x0b => regex_len(bytes),
        _ => Err(Damage::Kind),
    }
}

#[inline]
fn counted(bytes: &[u8], min: usize) -> Result<usize, Damage> {
    int32(bytes).and_then(|len| usize::try_from(len).ok()).filter(|&len| len >= min).ok_or(Damage::Length)
}

fn regex_len(bytes: &[u8]) -> Result<usize, Damage> {
    let mut nul = bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(index, _)| index);
    nul.nth(1).map(|index| index + 1).ok_or(Damage::Terminator)
}

impl<'a> Element<'a> {
    /// A 32-bit or 64-bit integer, a double (truncated) or a boolean (0 or 1) as an integer; `None` for any
    /// other type.
    pub fn as_i64(&self) -> Option<i64> {
        match self.kind {
            kind::INT32 => int32(self.value).map(i64::from),
            kind::INT64 => int64(self.value),
            kind::DOUBLE => int64(self.value).map(|bits| f64::from_bits(bits.cast_unsigned()) as i64),
            kind::BOOLEAN => self.value.first().map(|&byte| i64::from(byte != 0)),
            _ => None,
        }
    }

    /// A number as an error code; 0 for any other type and for a number beyond 32 bits.
    pub fn as_code(&self) -> i32 {
        self.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0)
    }

    /// A number as a count; negative numbers count as 0.
    pub fn as_count(&self) -> Option<u64> {
        self.as_i64().map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// The bytes of a string, without its NUL. They may not be UTF-8.
    pub fn as_text(&self) -> Option<&'a [u8]> {
        (self.kind == kind::STRING).then(|| self.value.get(4..self.value.len().checked_sub(1)?)).flatten()
    }

    /// The bytes of an embedded document.
    pub fn as_document(&self) -> Option<&'a [u8]> {
        (self.kind == kind::DOCUMENT).then_some(self.value)
    }

    /// The bytes of an array.
    pub fn as_array(&self) -> Option<&'a [u8]> {
        (self.kind == kind::ARRAY).then_some(self.value)
    }

    /// Subtype and bytes of binary data.
    #[inline]
    pub fn as_binary(&self) -> Option<(u8, &'a [u8])> {
        let (_, [subtype, bytes @ ..]) = self.value.split_at_checked(4)? else { return None };
        (self.kind == kind::BINARY).then_some((*subtype, bytes))
    }

    /// The position of the element, with type and key, in `bytes`: the bytes from which the element was read.
    pub fn range_in(&self, bytes: &[u8]) -> Range<usize> {
        // The key is a part of `bytes`, so its position is the distance of their first bytes. The type byte precedes it.
        let key = self.key.as_ptr().addr() - bytes.as_ptr().addr();
        key - 1..key + self.key.len() + 1 + self.value.len()
    }

    /// The position of the value in `bytes`: the bytes from which the element was read.
    pub fn value_in(&self, bytes: &[u8]) -> Range<usize> {
        let end = self.range_in(bytes).end;
        end - self.value.len()..end
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bson::doc;
    use proptest::prelude::*;

    pub(crate) fn every_type() -> bson::Document {
        let value = serde_json::json!({
            "double": 1.5, "text": "é", "document": {"_id": 1, "a": [1, {"b": null}]}, "array": [[], {}],
            "binary": {"$binary": {"base64": "AQID", "subType": "02"}}, "undefined": {"$undefined": true},
            "_id": {"$oid": "65a100000000000000000000"}, "bool": true, "date": {"$date": 5}, "null": null,
            "regex": {"$regularExpression": {"pattern": "a", "options": "i"}},
            "pointer": {"$dbPointer": {"$ref": "c", "$id": {"$oid": "65a100000000000000000000"}}},
            "code": {"$code": "f"}, "symbol": {"$symbol": "s"}, "scope": {"$code": "f", "$scope": {"x": 1}},
            "int": 1, "stamp": {"$timestamp": {"t": 1, "i": 2}}, "long": {"$numberLong": "1"},
            "decimal": {"$numberDecimal": "1.5"}, "min": {"$minKey": 1}, "max": {"$maxKey": 1},
        });
        let bson::Bson::Document(document) = value.try_into().unwrap() else { panic!("not a document") };
        document
    }

    #[test]
    fn every_bson_type_is_walked_with_the_keys_that_the_bson_crate_finds() {
        let document = every_type();
        let bytes = document.to_vec().unwrap();
        let keys: Vec<&[u8]> = Elements::of(&bytes).unwrap().map(|element| element.unwrap().key).collect();
        assert_eq!(keys, document.keys().map(|key| key.as_bytes()).collect::<Vec<_>>());
        assert_eq!(valid(&bytes).count(), keys.len());
    }

    #[test]
    fn an_element_knows_its_position_in_the_document() {
        let bytes = every_type().to_vec().unwrap();
        let mut at = 4;
        for element in valid(&bytes) {
            let range = element.range_in(&bytes);
            assert_eq!((range.start, bytes[at]), (at, element.kind));
            assert_eq!(&bytes[element.value_in(&bytes)], element.value);
            at = range.end;
        }
        assert_eq!(at, bytes.len() - 1);
        let id = find(&bytes, b"_id").unwrap();
        assert_eq!(&bytes[id.range_in(&bytes)][..5], b"\x07_id\0");
        assert_eq!(find(&bytes, b"a"), None);
    }

    #[test]
    fn values_are_read_by_their_type() {
        let bytes =
            doc! {"a": 5, "b": -1_i64, "c": 2.9, "d": true, "e": "text", "f": {}, "g": []}.to_vec().unwrap();
        let elements: Vec<_> = valid(&bytes).collect();
        assert_eq!(
            elements.iter().map(Element::as_i64).collect::<Vec<_>>(),
            [Some(5), Some(-1), Some(2), Some(1), None, None, None]
        );
        assert_eq!(
            (elements[1].as_count(), elements[4].as_count(), elements[4].as_code()),
            (Some(0), None, 0)
        );
        assert_eq!((elements[4].as_text(), elements[0].as_text()), (Some(&b"text"[..]), None));
        assert_eq!((elements[5].as_document().is_some(), elements[5].as_array()), (true, None));
        assert_eq!((elements[6].as_array().is_some(), elements[6].as_document()), (true, None));
        let binary = every_type().to_vec().unwrap();
        assert_eq!(find(&binary, b"binary").unwrap().as_binary(), Some((2, &[3, 0, 0, 0, 1, 2, 3][..])));
        assert_eq!(elements[4].as_binary(), None);
    }

    #[test]
    fn a_document_cut_at_any_byte_is_an_error_and_not_a_panic() {
        let bytes = every_type().to_vec().unwrap();
        for len in 0..bytes.len() {
            assert!(Elements::of(&bytes[..len]).is_err(), "cut at {len}");
            assert_eq!(valid(&bytes[..len]).count(), 0);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_in_a_document_of_correct_length_never_panic(mut body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = i32::try_from(body.len() + 5).unwrap().to_le_bytes().to_vec();
            bytes.append(&mut body);
            bytes.push(0);
            let walked: usize = Elements::of(&bytes).unwrap().map_while(Result::ok)
                .map(|element| { let _ = (element.as_i64(), element.as_text()); element.range_in(&bytes).len() }).sum();
            prop_assert!(walked <= bytes.len() - 5);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(valid(&bytes).all(|element| element.range_in(&bytes).end < bytes.len()));
        }

        #[test]
        fn changed_bytes_never_cause_a_read_outside_the_document(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = every_type().to_vec().unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let end = valid(&bytes).map(|element| element.value_in(&bytes).end).max().unwrap_or(0);
            prop_assert!(end < bytes.len());
        }
    }
}
