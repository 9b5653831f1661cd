//! Walks the elements of a BSON document from an untrusted source, one level deep, without allocating.
//!
//! Checks every length before using it. Decodes a value only on demand and does not enter nested documents, so that deep
//! nesting in a hostile reply costs nothing.

/// The minimum size of a document in bytes: its length and the closing NUL.
const DOCUMENT_LEN_MIN: usize = 5;

/// Bytes that break MongoDB's protocol, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The elements of one document, in order.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    rest: &'a [u8],
}

/// One element: its type byte, its key without the NUL, and its value's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) kind: u8,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The document at the start of `bytes`. Its length and its closing NUL are checked.
///
/// # Errors
/// The length is below five or exceeds `bytes`, or the document does not end in NUL.
pub(crate) fn document(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let len =
        int32(bytes).and_then(|len| usize::try_from(len).ok()).ok_or(Malformed("a document is truncated"))?;
    let document = bytes.get(..len).ok_or(Malformed("a document exceeds its container"))?;
    if len < DOCUMENT_LEN_MIN || document.last() != Some(&0) {
        return Err(Malformed("a document is not closed by a NUL"));
    }
    Ok(document)
}

/// The 32-bit little-endian integer at the start of `bytes`.
pub(crate) fn int32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

fn int64(bytes: &[u8]) -> Option<i64> {
    bytes.first_chunk().map(|chunk| i64::from_le_bytes(*chunk))
}

impl<'a> Elements<'a> {
    /// The elements of exactly one document.
    ///
    /// # Errors
    /// As [`document`]; or other bytes follow the document.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let document = document(bytes)?;
        if document.len() != bytes.len() {
            return Err(Malformed("bytes follow a document"));
        }
        Ok(Elements { rest: &bytes[4..bytes.len() - 1] })
    }

    fn split(&mut self) -> Result<Element<'a>, Malformed> {
        let (&kind, rest) = self.rest.split_first().ok_or(Malformed("an element is truncated"))?;
        let end = rest.iter().position(|&byte| byte == 0).ok_or(Malformed("a key is not closed by a NUL"))?;
        let (key, rest) = (&rest[..end], &rest[end + 1..]);
        let len = value_len(kind, rest)?;
        let value = rest.get(..len).ok_or(Malformed("a value exceeds its document"))?;
        self.rest = &rest[len..];
        Ok(Element { kind, key, value })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Malformed>;

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

/// The length of a value by its type (bsonspec.org, version 1.1).
fn value_len(kind: u8, bytes: &[u8]) -> Result<usize, Malformed> {
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
        _ => Err(Malformed("an element has an unknown type")),
    }
}

fn counted(bytes: &[u8], min: usize) -> Result<usize, Malformed> {
    int32(bytes)
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len >= min)
        .ok_or(Malformed("a length is out of bounds"))
}

fn regex_len(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut nul = bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(index, _)| index);
    nul.nth(1).map(|index| index + 1).ok_or(Malformed("a regular expression is not closed"))
}

impl<'a> Element<'a> {
    /// A number of any type as an integer (a double is truncated); booleans count as 0 and 1.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self.kind {
            0x10 => int32(self.value).map(i64::from),
            0x12 => int64(self.value),
            0x01 => int64(self.value).map(|bits| f64::from_bits(bits.cast_unsigned()) as i64),
            0x08 => self.value.first().map(|&byte| i64::from(byte != 0)),
            _ => None,
        }
    }

    /// A number as an error code: 0 if it is none.
    pub(crate) fn as_code(&self) -> i32 {
        self.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0)
    }

    /// A number as a count; negative numbers count as 0.
    pub(crate) fn as_count(&self) -> Option<u64> {
        self.as_i64().map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// The bytes of a string, without its NUL. They may not be UTF-8.
    pub(crate) fn as_text(&self) -> Option<&'a [u8]> {
        (self.kind == 0x02).then(|| self.value.get(4..self.value.len().checked_sub(1)?)).flatten()
    }

    /// The bytes of an embedded document.
    pub(crate) fn as_document(&self) -> Option<&'a [u8]> {
        (self.kind == 0x03).then_some(self.value)
    }

    /// The bytes of an array.
    pub(crate) fn as_array(&self) -> Option<&'a [u8]> {
        (self.kind == 0x04).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, doc};
    use proptest::prelude::*;

    fn every_type() -> bson::Document {
        doc! {
            "double": 1.5, "string": "text", "document": {"a": 1}, "array": [1, 2],
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1, 2] },
            "oid": bson::oid::ObjectId::from_bytes([7; 12]), "bool": true,
            "date": bson::DateTime::from_millis(5), "null": Bson::Null,
            "regex": bson::Regex { pattern: bson::cstr!("a.b").into(), options: bson::cstr!("i").into() },
            "js": Bson::JavaScriptCode("x".into()),
            "scope": bson::JavaScriptCodeWithScope { code: "y".into(), scope: doc! {"z": 1} },
            "symbol": Bson::Symbol("s".into()),
            "i32": 7, "timestamp": bson::Timestamp { time: 1, increment: 2 }, "i64": 8_i64,
            "decimal": bson::Decimal128::from_bytes([0; 16]), "max": Bson::MaxKey, "min": Bson::MinKey,
            "undefined": Bson::Undefined,
        }
    }

    #[test]
    fn every_bson_type_is_walked_with_the_keys_that_the_bson_crate_finds() {
        let document = every_type();
        let bytes = document.to_vec().unwrap();
        let keys: Vec<&[u8]> = Elements::of(&bytes).unwrap().map(|element| element.unwrap().key).collect();
        assert_eq!(keys, document.keys().map(|key| key.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn a_document_cut_at_any_byte_is_an_error_and_no_panic() {
        let bytes = every_type().to_vec().unwrap();
        for len in 0..bytes.len() {
            assert!(Elements::of(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_in_a_document_of_correct_length_never_panic(mut body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = i32::try_from(body.len() + 5).unwrap().to_le_bytes().to_vec();
            bytes.append(&mut body);
            bytes.push(0);
            let walked: usize = Elements::of(&bytes).unwrap().map_while(Result::ok)
                .map(|element| { let _ = (element.as_i64(), element.as_text()); element.value.len() }).sum();
            prop_assert!(walked <= bytes.len());
        }
    }
}
