//! Encodes the small documents around a receipt: filters by `_id`, and update and delete statements.

use bson::Document;
use plimsoll_document::{IdForm, Identity, ycsb_id};
use plimsoll_wire::WriteConcern;

const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BINARY: u8 = 0x05;
const OBJECT_ID: u8 = 0x07;
const BOOLEAN: u8 = 0x08;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;
const UUID_SUBTYPE: u8 = 4;

/// Appends one document whose elements `fill` writes.
pub fn document(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    out.push(0);
    let length = i32::try_from(out.len() - at).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends an element that is a document; `value` appends exactly that document.
pub fn nested(out: &mut Vec<u8>, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    name(out, DOCUMENT, key);
    value(out);
}

/// Appends a truth value.
pub fn boolean(out: &mut Vec<u8>, key: &str, value: bool) {
    name(out, BOOLEAN, key);
    out.push(u8::from(value));
}

/// Appends a 32-bit number.
pub fn int32(out: &mut Vec<u8>, key: &str, value: i32) {
    name(out, INT32, key);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 64-bit number.
pub fn int64(out: &mut Vec<u8>, key: &str, value: i64) {
    name(out, INT64, key);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a text.
pub fn string(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    name(out, STRING, key);
    let length = i32::try_from(value.len() + 1).unwrap_or(i32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value);
    out.push(0);
}

/// Appends an element that is an array; `fill` appends its items with their numbers as keys.
pub fn array(out: &mut Vec<u8>, key: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    name(out, ARRAY, key);
    document(out, fill);
}

/// Appends the item `index` of an array, which is a document; `value` appends exactly that document.
pub fn item(out: &mut Vec<u8>, index: usize, value: impl FnOnce(&mut Vec<u8>)) {
    use std::io::Write;
    out.push(DOCUMENT);
    // Writing to a vector cannot fail.
    write!(out, "{index}\0").unwrap_or_default();
    value(out);
}

/// Appends a binary value that is a UUID.
pub fn uuid(out: &mut Vec<u8>, key: &str, value: [u8; 16]) {
    name(out, BINARY, key);
    out.extend_from_slice(&16i32.to_le_bytes());
    out.push(UUID_SUBTYPE);
    out.extend_from_slice(&value);
}

/// Appends an element that is a constant document, if there is one.
pub fn constant(out: &mut Vec<u8>, key: &str, value: Option<&Document>) {
    if let Some(Ok(bytes)) = value.map(Document::to_vec) {
        nested(out, key, |out| out.extend_from_slice(&bytes));
    }
}

/// Appends the element `writeConcern`, if there is one.
pub fn write_concern(out: &mut Vec<u8>, value: Option<&WriteConcern>) {
    value.into_iter().for_each(|value| value.append(out));
}

/// Appends the filter `{_id: …}` for a receipt.
pub fn by_receipt(out: &mut Vec<u8>, form: IdForm, identity: &Identity) {
    document(out, |out| receipt(out, "_id", form, identity));
}

/// Appends the filter `{_id: {$gte: …}}` for a receipt.
pub fn from_receipt(out: &mut Vec<u8>, form: IdForm, identity: &Identity) {
    document(out, |out| {
        nested(out, "_id", |out| document(out, |out| receipt(out, "$gte", form, identity)));
    });
}

/// Appends a receipt.
pub fn receipt(out: &mut Vec<u8>, key: &str, form: IdForm, identity: &Identity) {
    match form {
        IdForm::String => {
            name(out, STRING, key);
            out.extend_from_slice(&25i32.to_le_bytes());
            for byte in identity.id {
                out.extend_from_slice(&hex(byte));
            }
            out.push(0);
        }
        IdForm::User => string(out, key, &ycsb_id::key(identity)),
        IdForm::ObjectId | IdForm::Own => {
            name(out, OBJECT_ID, key);
            out.extend_from_slice(&identity.id);
        }
    }
}

const fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

fn name(out: &mut Vec<u8>, kind: u8, key: &str) {
    out.push(kind);
    out.extend_from_slice(key.as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{doc, oid::ObjectId};

    fn read(write: impl FnOnce(&mut Vec<u8>)) -> Document {
        let mut out = Vec::new();
        write(&mut out);
        Document::from_reader(out.as_slice()).unwrap()
    }

    #[test]
    fn a_receipt_is_found_in_both_forms() {
        let id = [0x69, 0x1f, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let identity = Identity { id, stamp: 0 };
        let oid = ObjectId::from_bytes(id);
        assert_eq!(read(|out| by_receipt(out, IdForm::ObjectId, &identity)), doc! {"_id": oid});
        assert_eq!(read(|out| by_receipt(out, IdForm::String, &identity)), doc! {"_id": oid.to_hex()});
    }

    #[test]
    fn every_form_of_a_receipt_bounds_a_range() {
        let identity = Identity { id: [7; 12], stamp: 5 };
        let oid = ObjectId::from_bytes([7; 12]);
        let from = |form| read(|out| from_receipt(out, form, &identity));
        assert_eq!(from(IdForm::ObjectId), doc! {"_id": {"$gte": oid}});
        assert_eq!(from(IdForm::String), doc! {"_id": {"$gte": oid.to_hex()}});
        let key = String::from_utf8(ycsb_id::key(&identity).to_vec()).unwrap();
        assert_eq!(from(IdForm::User), doc! {"_id": {"$gte": key}});
    }

    #[test]
    fn values_are_those_of_bson() {
        let read = read(|out| {
            document(out, |out| {
                int64(out, "n", 1 << 40);
                string(out, "s", b"text");
                array(out, "a", |out| (0..11).for_each(|at| item(out, at, |out| document(out, |_| ()))));
                uuid(out, "u", [3; 16]);
            });
        });
        let uuid = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![3; 16] };
        assert_eq!(read, doc! {"n": 1_i64 << 40, "s": "text", "a": vec![doc! {}; 11], "u": uuid});
    }

    #[test]
    fn statements_nest() {
        let statement = read(|out| {
            document(out, |out| {
                nested(out, "q", |out| document(out, |_| ()));
                boolean(out, "multi", true);
                int32(out, "limit", 1);
            });
        });
        assert_eq!(statement, doc! {"q": {}, "multi": true, "limit": 1});
    }
}
