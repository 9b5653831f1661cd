//! Defines the failures of the storage.

use bson::Document;
use mongodb::error::{ErrorKind, WriteFailure};

use crate::Refusal;

/// The largest document: the server accepts 16 MiB, and the catalogue adds fields later.
const DOCUMENT_BYTES_MAX: usize = 15 << 20;
/// The code of a duplicate key.
const DUPLICATE_KEY: i32 = 11_000;

/// The code of a read that took longer than its limit.
const TOO_SLOW: i32 = 50;

/// The codes of a query that the server does not accept: bad value, failed to parse, invalid pattern.
const BAD_QUERY: [i32; 4] = [2, 9, 51_091, 51_111];

/// The storage refuses, or the server failed.
#[derive(Clone, Debug, thiserror::Error)]
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

/// Whether a read took longer than its limit.
pub(crate) fn is_too_slow(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(refused) if refused.code == TOO_SLOW)
}

/// Whether a read of the storage took longer than its limit.
pub(super) fn is_slow(error: &Error) -> bool {
    matches!(error, Error::Database(error) if is_too_slow(error))
}

/// Whether the server does not accept a query or a change: a pattern, an order by two lists, or a sum without bounds.
pub(crate) fn is_bad_query(error: &mongodb::error::Error) -> bool {
    let code = match error.kind.as_ref() {
        ErrorKind::Command(refused) => refused.code,
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.code,
        _ => return false,
    };
    BAD_QUERY.contains(&code)
}

/// Refuses a document that the server cannot hold.
pub(super) fn fits(document: &Document) -> Result<(), Refusal> {
    if encoded_bytes(document) <= DOCUMENT_BYTES_MAX { Ok(()) } else { Err(Refusal::TooLarge) }
}

/// The stored bytes of a document.
pub(super) fn encoded_bytes(document: &Document) -> usize {
    document.to_vec().map_or(usize::MAX, |bytes| bytes.len())
}

/// The indices of the documents whose keys exist already. `None` if an insert of many failed for another reason.
pub(super) fn duplicates(error: &mongodb::error::Error) -> Option<Vec<usize>> {
    let ErrorKind::InsertMany(failed) = error.kind.as_ref() else { return None };
    let errors = failed.write_errors.as_ref().filter(|_| failed.write_concern_error.is_none())?;
    let places = errors.iter().map(|error| (error.code == DUPLICATE_KEY).then_some(error.index));
    places.collect()
}

/// Whether an insert failed because its key exists.
pub(super) fn is_duplicate(error: &mongodb::error::Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.code == DUPLICATE_KEY,
        ErrorKind::Command(refused) => refused.code == DUPLICATE_KEY,
        _ => false,
    }
}

/// A read that took longer than its limit.
#[cfg(test)]
pub(super) fn too_slow() -> Error {
    let refused = bson::doc! {"code": TOO_SLOW, "codeName": "MaxTimeMSExpired", "errmsg": "slow"};
    let refused: mongodb::error::CommandError = bson::deserialize_from_document(refused).unwrap();
    Error::Database(ErrorKind::Command(refused).into())
}
