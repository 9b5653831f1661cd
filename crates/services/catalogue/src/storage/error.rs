//! Defines the failures of the storage.

use mongodb::error::{ErrorKind, WriteFailure};

use crate::Refusal;

/// The code of a duplicate key.
const DUPLICATE_KEY: i32 = 11_000;

/// The storage refuses, or the server failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request contradicts the stored data.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The document has changed since it was read: read it again.
    #[error("the document has changed meanwhile: read it again")]
    Changed,
    /// The server failed.
    #[error(transparent)]
    Database(#[from] mongodb::error::Error),
}

/// Whether an insert failed because its key exists.
pub(super) fn is_duplicate(error: &mongodb::error::Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.code == DUPLICATE_KEY,
        ErrorKind::Command(refused) => refused.code == DUPLICATE_KEY,
        _ => false,
    }
}
