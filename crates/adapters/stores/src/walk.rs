//! Checks the structure of BSON documents without decoding values, and locates elements.
//!
//! A server refuses a whole command for one malformed document, so none is sent.

use std::ops::Range;

/// How deep documents may nest: the limit of servers.
const DEPTH_MAX: u32 = 100;

/// Bytes that are not a BSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a BSON document: {0}")]
pub struct NoDocument(&'static str);

/// Checks that `bytes` are one document at every level. Returns the range of its element `_id`, with type and name.
///
/// # Errors
/// Why they are malformed.
pub fn check(bytes: &[u8]) -> Result<Option<Range<usize>>, NoDocument> {
    find(bytes, b"_id")
}

/// Checks likewise, and returns the range of the first element called `name`.
///
/// # Errors
/// Why the bytes are malformed.
pub fn find(bytes: &[u8], name: &[u8]) -> Result<Option<Range<usize>>, NoDocument> {
    let mut found = None;
    walk(bytes, DEPTH_MAX, &mut |key, range| {
        if key == name && found.is_none() {
            found = Some(range);
        }
    })?;
    Ok(found)
}

/// Walks one document that fills `bytes`. Calls `each` for its top-level elements.
fn walk(bytes: &[u8], depth: u32, each: &mut dyn FnMut(&[u8], Range<usize>)) -> Result<(), NoDocument> {
    let depth = depth.checked_sub(1).ok_or(NoDocument("it nests too deep"))?;
    if int32(bytes)? != bytes.len() || bytes.len() < 5 || bytes[bytes.len() - 1] != 0 {
        return Err(NoDocument("its length is not that of its bytes"));
    }
    let (mut at, end) = (4, bytes.len() - 1);
    while at < end {
        let name = at + 1;
        let len =
            bytes[name..end].iter().position(|byte| *byte == 0).ok_or(NoDocument("a name has no end"))?;
        let value = name + len + 1;
        let next = value + value_len(bytes[at], &bytes[value..end], depth)?;
        if next > end {
            return Err(NoDocument("a value is longer than what holds it"));
        }
        each(&bytes[name..name + len], at..next);
        at = next;
    }
    Ok(())
}

/// The length of a value by its type (bsonspec.org, version 1.1).
fn value_len(kind: u8, bytes: &[u8], depth: u32) -> Result<usize, NoDocument> {
    Ok(match kind {
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x02 | 0x0d | 0x0e => text_len(bytes)?,
        0x03 | 0x04 => nested_len(bytes, depth)?,
        0x05 => 5 + int32(bytes)?,
        0x06 | 0x0a | 0x7f | 0xff => 0,
        0x07 => 12,
        0x08 => 1,
        0x0b => pattern_len(bytes)?,
        0x0c => text_len(bytes)? + 12,
        0x0f => scope_len(bytes, depth)?,
        0x10 => 4,
        0x13 => 16,
        _ => return Err(NoDocument("an element has no type of BSON")),
    })
}

fn nested_len(bytes: &[u8], depth: u32) -> Result<usize, NoDocument> {
    let len = int32(bytes)?;
    let nested = bytes.get(..len).ok_or(NoDocument("a value is longer than what holds it"))?;
    walk(nested, depth, &mut |_, _| ())?;
    Ok(len)
}

/// The length of a text value: its length field, and the bytes up to the final NUL.
fn text_len(bytes: &[u8]) -> Result<usize, NoDocument> {
    let len = 4 + int32(bytes)?;
    if len > 4 && bytes.get(len - 1) == Some(&0) { Ok(len) } else { Err(NoDocument("a text has no end")) }
}

/// The length of a pattern: two NUL-terminated names.
fn pattern_len(bytes: &[u8]) -> Result<usize, NoDocument> {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1);
    ends.nth(1).ok_or(NoDocument("a pattern has no end"))
}

/// The length of code with scope: a total length, a text, a document.
fn scope_len(bytes: &[u8], depth: u32) -> Result<usize, NoDocument> {
    let len = int32(bytes)?;
    let inner = bytes.get(4..len).ok_or(NoDocument("a value is longer than what holds it"))?;
    let text = text_len(inner)?;
    if text + nested_len(&inner[text..], depth)? == inner.len() {
        Ok(len)
    } else {
        Err(NoDocument("the length of code with scope is wrong"))
    }
}

fn int32(bytes: &[u8]) -> Result<usize, NoDocument> {
    let len = bytes.first_chunk::<4>().map(|len| i32::from_le_bytes(*len));
    len.and_then(|len| usize::try_from(len).ok()).ok_or(NoDocument("a length is out of bounds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, doc};

    fn every_type() -> Vec<u8> {
        let document = doc! {
            "double": 1.5, "string": "text", "document": {"_id": 1, "b": {"c": "d"}}, "array": [1, "x", {"y": 2}],
            "binary": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1, 2] }),
            "_id": bson::oid::ObjectId::from_bytes([7; 12]), "bool": true,
            "date": bson::DateTime::from_millis(5), "null": Bson::Null,
            "regex": bson::Regex { pattern: bson::cstr!("a.b").into(), options: bson::cstr!("i").into() },
            "js": Bson::JavaScriptCode("x".into()),
            "scope": bson::JavaScriptCodeWithScope { code: "y".into(), scope: doc! {"z": 1} },
            "i32": 7, "timestamp": bson::Timestamp { time: 1, increment: 2 }, "i64": 8_i64,
            "decimal": bson::Decimal128::from_bytes([0; 16]), "max": Bson::MaxKey, "min": Bson::MinKey,
        };
        document.to_vec().unwrap()
    }

    #[test]
    fn every_type_is_checked_and_the_top_level_id_is_found() {
        let bytes = every_type();
        let id = check(&bytes).unwrap().unwrap();
        assert_eq!(&bytes[id], [&[0x07][..], b"_id\0", &[7; 12]].concat());
        assert_eq!(check(&doc! {"a": {"_id": 1}}.to_vec().unwrap()), Ok(None));
        assert_eq!(check(&[5, 0, 0, 0, 0]), Ok(None));
    }

    #[test]
    fn a_truncated_document_is_refused_even_with_a_corrected_length() {
        let bytes = every_type();
        for len in 0..bytes.len() {
            assert!(check(&bytes[..len]).is_err(), "cut at {len}");
            let mut mended = bytes[..len].to_vec();
            if len >= 4 {
                mended[..4].copy_from_slice(&i32::try_from(len).unwrap().to_le_bytes());
                // Cut behind a value, with a NUL there, it may be a whole document: what counts is that nothing panics.
                let _ = check(&mended);
            }
        }
    }

    #[test]
    fn any_one_bit_flipped_never_panics() {
        let bytes = every_type();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = check(&flipped);
        }
    }

    #[test]
    fn too_deep_nesting_is_refused() {
        let mut nested = vec![5, 0, 0, 0, 0];
        for _ in 0..DEPTH_MAX {
            let mut outer = Vec::new();
            crate::encode::document(&mut outer, |out| {
                crate::encode::name(out, 0x03, "a");
                out.extend_from_slice(&nested);
            });
            nested = outer;
        }
        assert_eq!(check(&nested), Err(NoDocument("it nests too deep")));
    }
}
