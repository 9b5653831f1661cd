//! Converts BSON payloads to values of the jq language and back.
//!
//! A program sees relaxed extended JSON: texts, numbers, booleans, null, arrays and documents as themselves, other types by
//! their extended names (`{"$oid": …}`, `{"$date": …}`, `{"$numberDecimal": …}`). On the way back:
//!
//! - an unchanged value in its old place keeps its bytes, so a program changes only what it touches;
//! - an object of extended JSON becomes its BSON type;
//! - another integer becomes int32 if it fits, else int64, and any other number a double.
//!
//! A value without such a form rejects its event: no value changes silently.

mod read;
mod write;

mod fields;

use bson::RawDocument;
use thiserror::Error;

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

/// The largest depth of nested documents, as in MongoDB's servers.
const DEPTH_MAX: usize = 100;

/// Explains why a BSON document or a program's result cannot be converted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConversionError {
    /// The payload is not BSON.
    #[error("the payload is not a BSON document: {0}")]
    Malformed(String),
    /// The document is nested too deep.
    #[error("the document is nested deeper than {most} levels", most = DEPTH_MAX)]
    Deep,
    /// Two fields have one name.
    #[error("the document has the field `{0}` twice")]
    Twice(String),
    /// A document looks like extended JSON.
    #[error("a document with the field `{0}` reads like extended JSON, but is plain data: rename the field")]
    Ambiguous(String),
    /// A value's text does not preserve the value.
    #[error("the value {0} cannot be converted to text without loss")]
    Inexact(String),
    /// The result is not an object.
    #[error("the program returned no object, and a BSON payload must be a document")]
    NoDocument,
    /// An invalid field name.
    #[error("the program returned the field name {0}, and a field name must be text without NUL")]
    Name(String),
    /// An invalid text.
    #[error("the program returned a text that is not UTF-8")]
    Text,
    /// A number beyond BSON's range.
    #[error("the program returned the number {0}, and BSON integers have at most 64 bits")]
    Number(String),
    /// Invalid extended JSON.
    #[error("the program returned invalid extended JSON: {0}")]
    Extended(String),
}

impl ConversionError {
    /// Malformed BSON.
    pub(super) fn malformed(error: impl std::fmt::Display) -> Self {
        Self::Malformed(error.to_string())
    }
}
