//! Parses the error of one document, and finds the index of a duplicate key.

use plimsoll_element::Elements;

use crate::class::Class;
use crate::error::Malformed;
use crate::outcome::Outcome;
use crate::write::spec::WriteKind;

/// The only key of the index that every collection has.
const ID: &[u8] = b"_id";
/// The words before the index name in the server's message.
const INDEX: &[u8] = b" index: ";
/// The name of the `_id` index.
const ID_INDEX: &[u8] = b"_id_";

/// A write error: index in the frame, code, message, and the keys of the violated index.
pub(super) struct WriteError<'a> {
    pub index: u32,
    pub code: i32,
    pub message: &'a [u8],
    key_pattern: Option<&'a [u8]>,
}

impl<'a> WriteError<'a> {
    /// Parses a write error of a reply.
    ///
    /// # Errors
    /// The error does not name its document, or is truncated.
    pub fn read(error: &'a [u8]) -> Result<Self, Malformed> {
        let (mut index, mut number, mut message, mut key_pattern) = (None, 0, [].as_slice(), None);
        for element in Elements::of(error)? {
            let element = element?;
            match element.key {
                b"index" => index = element.as_i64().and_then(|index| u32::try_from(index).ok()),
                b"code" => number = element.as_code(),
                b"errmsg" => message = element.as_text().unwrap_or_default(),
                b"keyPattern" => key_pattern = element.as_document(),
                _ => {}
            }
        }
        let index = index.ok_or(Malformed("a write error does not name its document"))?;
        Ok(Self { index, code: number, message, key_pattern })
    }

    /// The outcome of the document.
    ///
    /// Only an insert can have a duplicate `_id`: an update may address any document.
    pub fn outcome(&self, kind: WriteKind) -> Result<Outcome, Malformed> {
        let outcome = Outcome::of_write_error(self.code);
        let duplicate = outcome == Outcome::Rejected(Class::DuplicateKey) && kind == WriteKind::Insert;
        if duplicate && is_of_id(self.key_pattern, self.message)? {
            return Ok(Outcome::Rejected(Class::DuplicateId));
        }
        Ok(outcome)
    }
}

/// Whether a duplicate concerns the `_id`. The index keys decide (sent since MongoDB 4.4), otherwise the index name in the
/// message. Without either the answer is no.
fn is_of_id(key_pattern: Option<&[u8]>, message: &[u8]) -> Result<bool, Malformed> {
    let Some(pattern) = key_pattern else { return Ok(index_name(message) == Some(ID_INDEX)) };
    let mut keys = Elements::of(pattern)?;
    let first = keys.next().transpose()?;
    Ok(first.is_some_and(|first| first.key == ID) && keys.next().is_none())
}

/// The index name in the message, up to the next space.
fn index_name(message: &[u8]) -> Option<&[u8]> {
    let at = message.windows(INDEX.len()).position(|words| words == INDEX)?;
    message[at + INDEX.len()..].split(|byte| *byte == b' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    const WORDS: &str = "E11000 duplicate key error collection: d.c index: ";

    fn check(pattern: Option<RawDocumentBuf>, message: &str, expected: bool) {
        let is = is_of_id(pattern.as_ref().map(|pattern| pattern.as_bytes()), message.as_bytes());
        assert_eq!(is, Ok(expected), "{pattern:?} {message}");
    }

    #[test]
    fn the_keys_of_the_index_decide() {
        for message in ["", &format!("{WORDS}_id_ dup key: {{ _id: 1 }}"), &format!("{WORDS}a_1 dup key")] {
            check(Some(rawdoc! {"_id": 1}), message, true);
            check(Some(rawdoc! {"_id": "hashed"}), message, true);
            check(Some(rawdoc! {"a": 1}), message, false);
            check(Some(rawdoc! {"_id": 1, "a": 1}), message, false);
            check(Some(rawdoc! {"a": 1, "_id": 1}), message, false);
            check(Some(rawdoc! {}), message, false);
        }
    }

    #[test]
    fn without_keys_the_name_of_the_index_decides() {
        check(None, &format!("{WORDS}_id_ dup key: {{ _id: ObjectId('00') }}"), true);
        check(None, &format!("{WORDS}_id_"), true);
        check(None, &format!("{WORDS}_id_1_a_1 dup key: {{ _id: 1, a: 1 }}"), false);
        check(None, &format!("{WORDS}a_1 dup key: {{ a: \" index: _id_ \" }}"), false);
        check(None, "E11000 duplicate key error", false);
        check(None, "", false);
    }

    #[test]
    fn truncated_keys_are_malformed() {
        assert!(is_of_id(Some(&[9, 0, 0, 0, 16, b'_', b'i', b'd', 0]), b"").is_err());
    }
}
