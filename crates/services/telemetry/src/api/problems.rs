//! What goes wrong inside, as a caller gets to hear it.

use plimsoll_service::body::invalid_json;
use plimsoll_service::{Kind, Problem};

use crate::feeds;
use crate::reading::Unread;
use crate::readings::{self, Fault, IngestError};

/// How long a caller waits when the database failed or memory was taken, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// What a caller is told of a reading whose commit failed.
pub(super) const NOT_ACKNOWLEDGED: &str =
    "the database did not acknowledge it: send it again, it is counted once";

/// Logs what the database said of a commit.
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
            feeds::Error::TooMany { .. } | feeds::Error::Oneself => {
                Self::new(Kind::Invalid, error.to_string())
            }
            feeds::Error::Memory(full) => full.into(),
            feeds::Error::Taken => Self::new(Kind::Conflict, error.to_string()),
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

/// What the database says stays in the log: it may tell names that are nobody's business.
fn database(error: &mongodb::error::Error) -> Problem {
    tracing::warn!(%error, "the database failed");
    Problem::new(Kind::Unavailable, "the database failed: try again").retry_after(RETRY_AFTER_S)
}

fn internal(error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(error, "the service failed");
    Problem::new(Kind::Internal, "the service failed: its log says why")
}
