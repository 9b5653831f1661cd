//! Turns errors into problems for the caller.

use plimsoll_service::body::invalid_json;
use plimsoll_service::{Kind, Problem};

use crate::feeds;
use crate::reading::Unread;
use crate::readings::{self, Fault, IngestError};

/// The retry time after a failure of the database, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// The message for a reading of a failed commit.
pub(super) const NOT_ACKNOWLEDGED: &str =
    "the database did not acknowledge the reading: retry, as a repeated reading counts once";

/// Logs the failure of a commit.
pub(super) fn log(fault: &Fault) {
    tracing::warn!(fault = %fault.text, "a commit of readings failed");
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        let detail = error.to_string();
        match error {
            IngestError::Busy { retry_after_s } => Self::new(Kind::Busy, detail).retry_after(retry_after_s),
            IngestError::Closing => Self::new(Kind::Unavailable, detail).retry_after(RETRY_AFTER_S),
            IngestError::Store(fault) => {
                log(&fault);
                Self::new(Kind::Unavailable, NOT_ACKNOWLEDGED).retry_after(RETRY_AFTER_S)
            }
        }
    }
}

impl From<readings::Error> for Problem {
    fn from(error: readings::Error) -> Self {
        match error {
            readings::Error::Query(_) | readings::Error::TooMuch { .. } | readings::Error::TooMany { .. } => {
                Self::new(Kind::Invalid, error.to_string())
            }
            readings::Error::Memory(full) => full.into(),
            readings::Error::Database(error) => database(&error),
            other => internal(&other),
        }
    }
}

impl From<feeds::Error> for Problem {
    fn from(error: feeds::Error) -> Self {
        match error {
            feeds::Error::TooMany { .. } | feeds::Error::SelfFollow => {
                Self::new(Kind::Invalid, error.to_string())
            }
            feeds::Error::Memory(full) => full.into(),
            feeds::Error::IdTaken => Self::new(Kind::Conflict, error.to_string()),
            feeds::Error::Database(error) => database(&error),
            other => internal(&other),
        }
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Json(error) => Self::new(Kind::Malformed, invalid_json(&error)),
            Unread::Invalid(invalid) => invalid.into(),
        }
    }
}

/// The database's message stays in the log, because it may contain private names.
fn database(error: &mongodb::error::Error) -> Problem {
    tracing::warn!(%error, "the database failed");
    Problem::new(Kind::Unavailable, "the database failed: retry").retry_after(RETRY_AFTER_S)
}

fn internal(error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(error, "the service failed");
    Problem::new(Kind::Internal, "the service failed: its log says why")
}
