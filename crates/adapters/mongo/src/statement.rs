//! Encodes the small documents around a receipt: filters by `_id`, and update and delete statements.

use bson::Document;
use plimsoll_document::{IdForm, Identity, ycsb_id};
use plimsoll_element::append;
use plimsoll_wire::WriteConcern;

/// Appends a constant document as an element, if any.
pub fn constant(out: &mut Vec<u8>, key: &str, value: Option<&Document>) {
    if let Some(Ok(bytes)) = value.map(Document::to_vec) {
        append::embedded(out, key, |out| out.extend_from_slice(&bytes));
    }
}

/// Appends the element `writeConcern`, if any.
pub fn write_concern(out: &mut Vec<u8>, value: Option<&WriteConcern>) {
    value.into_iter().for_each(|value| value.append(out));
}

/// Appends the filter `{_id: …}` for a receipt.
pub fn by_receipt(out: &mut Vec<u8>, form: IdForm, identity: &Identity) {
    append::document(out, |out| receipt(out, "_id", form, identity));
}

/// Appends the filter `{_id: {$gte: …}}` for a receipt.
pub fn from_receipt(out: &mut Vec<u8>, form: IdForm, identity: &Identity) {
    append::document(out, |out| {
        append::nested(out, "_id", |out| receipt(out, "$gte", form, identity));
    });
}

/// Appends a receipt.
pub fn receipt(out: &mut Vec<u8>, key: &str, form: IdForm, identity: &Identity) {
    match form {
        IdForm::String => append::string(out, key, identity.hex()),
        IdForm::User => append::string(out, key, ycsb_id::key(identity)),
        IdForm::ObjectId | IdForm::Own => append::object_id(out, key, &identity.id),
    }
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
    fn a_receipt_is_encoded_in_both_forms() {
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
}
