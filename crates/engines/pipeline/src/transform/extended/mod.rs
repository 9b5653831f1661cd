//! BSON payloads under the programs of the jq language.
//!
//! A program sees extended JSON in its relaxed form: texts, numbers, truth values, null, arrays and documents as themselves,
//! everything else as what it is called there (`{"$oid": …}`, `{"$date": …}`, `{"$numberDecimal": …}`). On the way back
//!
//! - what stands where it stood and is what it was keeps its bytes, so a program touches only what it changes;
//! - an object of extended JSON becomes what it says;
//! - another whole number becomes int32 where it fits, else int64, and any other number a double.
//!
//! What has no such form is that event's error: nothing is changed in silence.

mod error;
mod read;
mod write;

mod fields;

use bson::RawDocument;

pub use error::Unmapped;
pub(super) use fields::Fields;
pub(super) use read::read;
pub(super) use write::write;

/// The document that a payload is; its values are looked at when they are read.
///
/// # Errors
///
/// If its length is not that of its bytes.
pub(super) fn document(payload: &[u8]) -> Result<&RawDocument, Unmapped> {
    RawDocument::from_bytes(payload).map_err(Unmapped::malformed)
}

/// How deep documents may nest: as deep as servers take them.
const DEPTH_MAX: usize = 100;
