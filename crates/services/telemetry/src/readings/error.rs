//! Defines the errors of readings.

use plimsoll_service::BudgetError;

/// The store failed. `Clone`, because one failure answers every caller of a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {text}; retry, as a repeated reading counts once")]
pub struct Fault {
    /// The store's message.
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

/// A reading was refused, or its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// Too many readings wait.
    #[error("too many readings wait to be stored: retry in {retry_after_s} s")]
    Busy {
        /// An estimate of the wait, from 1 to 60 seconds.
        retry_after_s: u64,
    },
    /// The service is stopping.
    #[error("the service is stopping and accepts no more readings: send them to another instance")]
    Closing,
    /// The commit failed or its answer was lost. The reading may be stored; a retry is safe.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// A query failed, or the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The database holds readings that the design does not see.
    #[error(
        "this database holds readings of the design `{found}`, which `{wanted}` does not see: set readings.design to {found}, or \
         choose another database"
    )]
    OtherDesign {
        /// The design of the stored readings.
        found: String,
        /// The design of the settings.
        wanted: &'static str,
    },
    /// The database holds readings of several designs, and does not record its design.
    #[error(
        "this database holds readings of the designs {0}, and each design sees only its readings: move the readings of all but one \
         design to another database"
    )]
    SeveralDesigns(String),
    /// The database holds buckets, and does not record their division.
    #[error(
        "this database holds buckets, and no record of their length: restore the collection `reading_layouts` too, or choose another \
         database"
    )]
    Unrecorded,
    /// The write concern requests no acknowledgement.
    #[error("the write concern is `w: 0`, which acknowledges nothing: use `w=majority` in the URI")]
    Unacknowledged,
    /// The query is invalid.
    #[error("{0}")]
    Query(String),
    /// The query would read too many values.
    #[error("the query holds more than {values_max} values: ask for fewer sensors or a shorter window")]
    TooMuch {
        /// The limit.
        values_max: usize,
    },
    /// The answer would have too many summaries.
    #[error(
        "the answer has more than {summaries_max} summaries (sensors × intervals × metrics): ask for fewer sensors, a \
         shorter window or longer intervals"
    )]
    TooMany {
        /// The limit.
        summaries_max: usize,
    },
    /// The memory budget does not cover the answer.
    #[error(transparent)]
    Memory(#[from] BudgetError),
    /// The computation was cancelled.
    #[error("the answer was not computed: is the service stopping?")]
    Aborted,
    /// A document in the database has a foreign form.
    #[error("a stored document is invalid ({0}): did another program write to the collection?")]
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
