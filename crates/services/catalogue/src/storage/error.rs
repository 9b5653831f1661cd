//! Defines the failures of the storage.

use mongodb::error::{ErrorKind, WriteFailure};

use crate::Refusal;

/// The code of a duplicate key.
const DUPLICATE_KEY: i32 = 11_000;

/// The code of a read that took longer than its limit.
const TOO_SLOW: i32 = 50;

/// The codes of a query that the server does not accept: bad value, failed to parse, invalid pattern.
const BAD_QUERY: [i32; 4] = [2, 9, 51_091, 51_111];

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

/// Whether a read took longer than its limit.
pub(crate) fn is_too_slow(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(refused) if refused.code == TOO_SLOW)
}

/// Whether the server does not accept a query: a pattern, or an order by two lists.
pub(crate) fn is_bad_query(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(refused) if BAD_QUERY.contains(&refused.code))
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
