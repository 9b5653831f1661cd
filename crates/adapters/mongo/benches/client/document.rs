//! Builds the inserted document: made once, with a fresh `_id` for each copy.

use bson::oid::ObjectId;
use bson::rawdoc;

use crate::Failure;

/// The database of the benchmark. Each client writes to the collection that has the client's name.
pub(crate) const DATABASE: &str = "plimsoll_bench";
/// The size of a document, in bytes. The script for PyMongo makes the same document.
const LEN: usize = 100;
/// The offset of the `_id`'s last eight bytes: after the length, the type, the name with its NUL, and four bytes.
const NUMBER_AT: usize = 4 + 1 + 4 + 4;

/// Makes documents of 100 bytes.
pub(crate) struct Maker {
    bytes: Vec<u8>,
    number: u64,
}

impl Maker {
    /// Creates a maker that starts with number 0.
    pub(crate) fn new() -> Result<Self, Failure> {
        let id = ObjectId::from_bytes([0; 12]);
        let bytes = rawdoc! {"_id": id, "n": 7_i64, "note": "x".repeat(56)}.into_bytes();
        if bytes.len() != LEN {
            return Err(format!("the document has {} bytes instead of {LEN}", bytes.len()).into());
        }
        Ok(Maker { bytes, number: 0 })
    }

    /// The next document.
    pub(crate) fn next(&mut self) -> &[u8] {
        patch(&mut self.bytes, self.number);
        self.number += 1;
        &self.bytes
    }

    /// Turns the document at the start of `bytes` into the next one.
    pub(crate) fn renew(&mut self, bytes: &mut [u8]) {
        patch(bytes, self.number);
        self.number += 1;
    }
}

fn patch(document: &mut [u8], number: u64) {
    document[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
}
