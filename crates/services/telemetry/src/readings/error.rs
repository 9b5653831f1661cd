//! What can go wrong, and what to do about it.

use plimsoll_service::BudgetError;

/// The store did not do what it was asked. It can be cloned, because one failure answers every caller of a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {text}; send the reading again, it is counted once")]
pub struct Fault {
    /// What it said.
    pub text: String,
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Fault { text: text.into() }
    }
}

impl From<mongodb::error::Error> for Fault {
    fn from(error: mongodb::error::Error) -> Self {
        Fault::new(error.to_string())
    }
}

/// A reading was not taken, or it is not known whether it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// Too many readings wait.
    #[error("too many readings wait to be stored: come back in {retry_after_s} s")]
    Busy {
        /// An estimate of when there is room, 1 to 60.
        retry_after_s: u64,
    },
    /// The service ends.
    #[error("the service ends and takes no more readings: send it to another one")]
    Closing,
    /// The commit failed or its answer was lost: the reading may have been stored. Sending it again is safe.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// A query failed, or the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be meant.
    #[error("{0}")]
    Setting(String),
    /// The write concern acknowledges nothing.
    #[error("the write concern is `w: 0`, which acknowledges nothing: use `w=majority` in the URI")]
    Unacknowledged,
    /// The query cannot be meant.
    #[error("{0}")]
    Query(String),
    /// The query would read too much at once.
    #[error("the query holds more than {values_max} values: ask for fewer sensors or a shorter window")]
    TooMuch {
        /// The limit.
        values_max: usize,
    },
    /// The answer would have too many figures.
    #[error(
        "the answer has more than {summaries_max} summaries (sensors × intervals × metrics): ask for fewer sensors, a \
         shorter window or longer intervals"
    )]
    TooMany {
        /// The limit.
        summaries_max: usize,
    },
    /// The answer finds no memory.
    #[error(transparent)]
    Memory(#[from] BudgetError),
    /// What was read was not worked out to the end.
    #[error("the answer was not worked out to its end: does the service end?")]
    Aborted,
    /// A document in the database is not one of ours.
    #[error("a stored document cannot be read ({0}): was the collection written by something else?")]
    Foreign(String),
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[from] mongodb::error::Error),
}

impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Error::Foreign(error.to_string())
    }
}

impl From<bson::error::Error> for Fault {
    fn from(error: bson::error::Error) -> Self {
        Fault::new(error.to_string())
    }
}
