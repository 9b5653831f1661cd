//! The small documents around a receipt: filters by `_id`, and update and delete statements.

use plimsoll_document::{IdForm, Identity};

const DOCUMENT: u8 = 0x03;
const STRING: u8 = 0x02;
const OBJECT_ID: u8 = 0x07;
const BOOLEAN: u8 = 0x08;
const INT32: u8 = 0x10;

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

/// Appends the filter `{_id: …}` for a receipt.
pub fn by_receipt(out: &mut Vec<u8>, form: IdForm, identity: &Identity) {
    document(out, |out| match form {
        IdForm::String => {
            name(out, STRING, "_id");
            out.extend_from_slice(&25i32.to_le_bytes());
            for byte in identity.id {
                out.extend_from_slice(&hex(byte));
            }
            out.push(0);
        }
        IdForm::ObjectId | IdForm::Own => {
            name(out, OBJECT_ID, "_id");
            out.extend_from_slice(&identity.id);
        }
    });
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
    use bson::{Document, doc, oid::ObjectId};

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
