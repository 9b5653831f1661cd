//! Explains why a BSON document or a program's result cannot be converted.

use thiserror::Error;

/// Explains why a BSON document or a program's result cannot be converted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConversionError {
    /// The payload is not BSON.
    #[error("the payload is not a BSON document: {0}")]
    Malformed(String),
    /// It is nested too deep.
    #[error("the document is nested deeper than {most} levels", most = super::DEPTH_MAX)]
    Deep,
    /// Two fields have one name.
    #[error("the document has the field `{0}` twice")]
    Twice(String),
    /// A document that reads like extended JSON.
    #[error("a document with the field `{0}` reads like extended JSON, but is plain data: rename the field")]
    Ambiguous(String),
    /// A value that its text does not preserve.
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
