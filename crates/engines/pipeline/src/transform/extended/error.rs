//! What has no form as a value of a program, or as BSON.

use thiserror::Error;

/// What has no form as a value of a program, or as BSON.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unmapped {
    /// The payload is no BSON.
    #[error("the payload is no BSON document: {0}")]
    Malformed(String),
    /// It nests too deep.
    #[error("the document is nested more than {most} deep", most = super::DEPTH_MAX)]
    Deep,
    /// A program would see only one of two fields.
    #[error("the document has the field `{0}` twice")]
    Twice(String),
    /// A document that extended JSON would take for something else.
    #[error("a document with the field `{0}` reads like extended JSON, and is none")]
    Ambiguous(String),
    /// A value that its own text does not give back.
    #[error("the value {0} cannot be written as text without a change")]
    Inexact(String),
    /// The program gave no document.
    #[error("the program gave no object: a payload of BSON is a document")]
    NoDocument,
    /// A name that no field can have.
    #[error("the program gave the name {0}, and a field's name is a text without NUL")]
    Name(String),
    /// A text that is none.
    #[error("the program gave a text that is not UTF-8")]
    Text,
    /// A number that BSON does not have.
    #[error("the program gave the number {0}, and BSON has whole numbers of 64 bits")]
    Number(String),
    /// What looks like extended JSON and is none.
    #[error("the program gave what looks like extended JSON and is none: {0}")]
    Extended(String),
}

impl Unmapped {
    /// Bytes that cannot be read.
    pub(super) fn malformed(error: impl std::fmt::Display) -> Self {
        Self::Malformed(error.to_string())
    }
}
