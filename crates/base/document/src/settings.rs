//! Holds the settings of a program and the identity of a document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DOCUMENT_BYTES_MAX;

/// The usual name of the stamp's field.
pub const STAMP_FIELD: &str = "_p";

/// The form of `_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdForm {
    /// The receipt as an ObjectId.
    #[default]
    ObjectId,
    /// The receipt as a string of 24 lower-case hexadecimal digits.
    String,
    /// `user` and 20 decimal digits, in an order unrelated to insertion, as YCSB's keys.
    User,
    /// The template or the file supplies `_id`; documents are then counted, not verified.
    Own,
}

/// The settings under which a template is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The seed of all random values.
    pub seed: u64,
    /// The reference time of relative dates, in milliseconds since the Unix epoch.
    pub start_ms: i64,
    /// The form of `_id`.
    pub id: IdForm,
    /// The name of the field that carries the stamp (int64, last in the document); `None` for no stamp.
    pub stamp: Option<String>,
    /// The size limit of a document, in bytes of BSON: MongoDB's own limit for documents stored in MongoDB.
    pub bytes_max: usize,
}

impl Default for Settings {
    /// Seed 0, start at the epoch, an ObjectId, the stamp under [`STAMP_FIELD`], and MongoDB's limit.
    fn default() -> Self {
        Self {
            seed: 0,
            start_ms: 0,
            id: IdForm::ObjectId,
            stamp: Some(STAMP_FIELD.to_owned()),
            bytes_max: DOCUMENT_BYTES_MAX,
        }
    }
}

/// The identity of a document: its receipt and its stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The receipt: the 12 bytes of the ObjectId.
    pub id: [u8; 12],
    /// The stamp of the receipt.
    pub stamp: i64,
}

impl Identity {
    /// The receipt as 24 lower-case hexadecimal digits.
    pub fn hex(&self) -> [u8; 24] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 24];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.id) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_equals_the_object_ids_hex() {
        let id = [0x65, 0xa1, 0, 0xff, 1, 2, 3, 4, 5, 6, 7, 0xe8];
        let identity = Identity { id, stamp: 0 };
        assert_eq!(identity.hex().as_slice(), bson::oid::ObjectId::from_bytes(id).to_hex().as_bytes());
    }

    #[test]
    fn id_forms_are_typed_in_snake_case() {
        for (text, form) in [
            ("\"object_id\"", IdForm::ObjectId),
            ("\"string\"", IdForm::String),
            ("\"user\"", IdForm::User),
            ("\"own\"", IdForm::Own),
        ] {
            assert_eq!(serde_json::from_str::<IdForm>(text).unwrap(), form);
        }
    }
}
