//! Converts BSON payloads to values of the jq language and back.
//!
//! A program sees relaxed extended JSON: texts, numbers, booleans, null, arrays and documents as themselves, other types by
//! their extended names (`{"$oid": …}`, `{"$date": …}`, `{"$numberDecimal": …}`). On the way back
//!
//! an unchanged value in its old place keeps its bytes, so a program changes only what it touches;
//! an object of extended JSON becomes its BSON type;
//! another integer becomes int32 if it fits, else int64, and any other number a double.
//!
//! A value without such a form rejects its event: nothing changes silently.

mod error;
mod read;
mod write;

mod fields;

use bson::RawDocument;

pub use error::ConversionError;
pub(super) use fields::Fields;
pub(super) use read::read;
pub(super) use write::write;

/// The document in a payload. Its values are checked when they are read.
///
/// # Errors
///
/// If its length differs from the number of its bytes.
pub(super) fn document(payload: &[u8]) -> Result<&RawDocument, ConversionError> {
    RawDocument::from_bytes(payload).map_err(ConversionError::malformed)
}

/// How deep documents may nest: the limit of servers.
const DEPTH_MAX: usize = 100;
