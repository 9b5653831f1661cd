//! Checks the bytes of an untrusted document.
//!
//! The layout is that of <https://bsonspec.org/spec.html>, version 1.1.

use crate::DEPTH_MAX;

use super::error::{Damage, Problem};

/// Checks that the bytes are one whole document, down to the innermost.
pub(super) fn check(document: &[u8]) -> Result<(), Problem> {
    check_at(document, 0, 0)
}

fn check_at(document: &[u8], base: usize, depth: usize) -> Result<(), Problem> {
    if depth > DEPTH_MAX {
        return Err(damaged(base, Damage::Depth));
    }
    let body = body(document).map_err(|what| damaged(base, what))?;
    let mut at = 4;
    while at < 4 + body.len() {
        let element =
            Element::read(&document[..document.len() - 1], at).map_err(|what| damaged(base + at, what))?;
        if let Some((start, end)) = element.nested {
            check_at(&document[start..end], base + start, depth + 1)?;
        }
        at = element.end;
    }
    Ok(())
}

/// The elements of a document, each with its name and all its bytes.
pub(super) fn elements(document: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), Problem>> {
    let inside = &document[..document.len().saturating_sub(1)];
    let mut at = 4;
    std::iter::from_fn(move || {
        if at >= inside.len() {
            return None;
        }
        let start = at;
        match Element::read(inside, start) {
            Ok(element) => {
                at = element.end;
                Some(Ok((&inside[start + 1..element.name_end], &inside[start..element.end])))
            }
            Err(what) => {
                at = inside.len();
                Some(Err(damaged(start, what)))
            }
        }
    })
}

fn damaged(at: usize, what: Damage) -> Problem {
    Problem::Damaged { at, what }
}

/// What stands between a document's length and its final zero.
fn body(document: &[u8]) -> Result<&[u8], Damage> {
    if length(document, 0)? != document.len() {
        return Err(Damage::Length);
    }
    match document {
        [_, _, _, _, body @ .., 0] => Ok(body),
        _ => Err(Damage::Terminator),
    }
}

/// Where the parts of an element lie.
struct Element {
    name_end: usize,
    end: usize,
    /// A document or array inside.
    nested: Option<(usize, usize)>,
}

impl Element {
    /// Reads the element that begins at `at`.
    fn read(bytes: &[u8], at: usize) -> Result<Self, Damage> {
        let kind = *bytes.get(at).ok_or(Damage::Length)?;
        let name_end = zero(bytes, at + 1)?;
        let start = name_end + 1;
        let end = value_end(kind, bytes, start)?;
        if end > bytes.len() {
            return Err(Damage::Length);
        }
        let nested = match kind {
            0x03 | 0x04 => Some((start, end)),
            // Code with scope: its length, a string, and a document.
            0x0F => Some((string_end(bytes, start + 4)?, end)).filter(|(scope, end)| scope <= end),
            _ => None,
        };
        if kind == 0x0F && nested.is_none() {
            return Err(Damage::Length);
        }
        Ok(Self { name_end, end, nested })
    }
}

/// Where a value ends; the caller checks that this lies within the bytes.
fn value_end(kind: u8, bytes: &[u8], at: usize) -> Result<usize, Damage> {
    Ok(match kind {
        0x06 | 0x0A | 0x7F | 0xFF => at,
        0x08 => at + 1,
        0x10 => at + 4,
        0x01 | 0x09 | 0x11 | 0x12 => at + 8,
        0x07 => at + 12,
        0x13 => at + 16,
        0x02 | 0x0D | 0x0E => string_end(bytes, at)?,
        0x0C => string_end(bytes, at)? + 12,
        0x03 | 0x04 => at + length(bytes, at)?.max(5),
        0x0F => at + length(bytes, at)?.max(14),
        0x05 => at + 5 + length(bytes, at)?,
        0x0B => zero(bytes, zero(bytes, at)? + 1)? + 1,
        _ => return Err(Damage::Kind),
    })
}

fn string_end(bytes: &[u8], at: usize) -> Result<usize, Damage> {
    let length = length(bytes, at)?;
    let end = at + 4 + length;
    match bytes.get(at + 4..end).and_then(<[u8]>::last) {
        Some(0) => Ok(end),
        Some(_) => Err(Damage::Terminator),
        None => Err(Damage::Length),
    }
}

fn length(bytes: &[u8], at: usize) -> Result<usize, Damage> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).ok_or(Damage::Length)?;
    usize::try_from(i32::from_le_bytes(four)).map_err(|_| Damage::Length)
}

fn zero(bytes: &[u8], from: usize) -> Result<usize, Damage> {
    let rest = bytes.get(from..).ok_or(Damage::Length)?;
    rest.iter().position(|byte| *byte == 0).map(|zero| from + zero).ok_or(Damage::Terminator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn every_type() -> Vec<u8> {
        let value = serde_json::json!({
            "double": 1.5, "text": "é", "document": {"a": [1, {"b": null}]}, "array": [[], {}],
            "binary": {"$binary": {"base64": "AQID", "subType": "02"}}, "undefined": {"$undefined": true},
            "oid": {"$oid": "65a100000000000000000000"}, "bool": true, "date": {"$date": 5}, "null": null,
            "regex": {"$regularExpression": {"pattern": "a", "options": "i"}},
            "pointer": {"$dbPointer": {"$ref": "c", "$id": {"$oid": "65a100000000000000000000"}}},
            "code": {"$code": "f"}, "symbol": {"$symbol": "s"}, "scope": {"$code": "f", "$scope": {"x": 1}},
            "int": 1, "stamp": {"$timestamp": {"t": 1, "i": 2}}, "long": {"$numberLong": "1"},
            "decimal": {"$numberDecimal": "1.5"}, "min": {"$minKey": 1}, "max": {"$maxKey": 1},
        });
        let bson::Bson::Document(document) = value.try_into().unwrap() else { panic!("not a document") };
        document.to_vec().unwrap()
    }

    #[test]
    fn every_type_passes() {
        assert_eq!(check(&every_type()), Ok(()));
        assert_eq!(elements(&every_type()).filter(Result::is_ok).count(), 21);
    }

    #[test]
    fn every_prefix_is_refused() {
        let bytes = every_type();
        for end in 0..bytes.len() {
            assert!(check(&bytes[..end]).is_err(), "{end}");
            assert!(elements(&bytes[..end]).count() < 23);
        }
    }

    #[test]
    fn no_flipped_byte_makes_it_panic() {
        let bytes = every_type();
        for at in 0..bytes.len() {
            for value in [0, 1, 5, 0x0F, 0x7F, 0x80, 0xFF] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let passed = check(&bytes).is_ok();
                assert!(!passed || elements(&bytes).all(|element| element.is_ok()));
            }
        }
    }

    #[test]
    fn damage_is_located() {
        let mut bytes = doc! {"a": 1, "b": {"c": "text"}}.to_vec().unwrap();
        let at = bytes.iter().rposition(|byte| *byte == b't').unwrap();
        bytes[at + 1] = b'!';
        assert_eq!(check(&bytes), Err(Problem::Damaged { at: 18, what: Damage::Terminator }));
    }

    #[test]
    fn a_tower_of_documents_is_refused() {
        let mut document = doc! {};
        for _ in 0..DEPTH_MAX + 1 {
            document = doc! {"a": document};
        }
        let result = check(&document.to_vec().unwrap());
        assert!(matches!(result, Err(Problem::Damaged { what: Damage::Depth, .. })), "{result:?}");
    }
}
