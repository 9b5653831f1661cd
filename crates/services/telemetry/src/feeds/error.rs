//! What can go wrong with feeds, and what to do about it.

use plimsoll_service::BudgetError;

/// A feed could not be opened, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be meant.
    #[error("feeds: {0}")]
    Setting(String),
    /// The database holds feeds of a design that cannot be turned into this one.
    #[error(
        "the feeds in this database were kept as `{was}`, and `on_write` needs copies that are not there: keep them as \
         `{was}`, or use another database"
    )]
    Kept {
        /// The design.
        was: String,
    },
    /// A user would follow too many.
    #[error("a user follows at most {most} others: unfollow some first")]
    TooMany {
        /// The limit.
        most: u32,
    },
    /// A user would follow themselves.
    #[error("users see their own activities anyway: follow somebody else")]
    Oneself,
    /// The id belongs to an activity of somebody else.
    #[error("another user's activity has this id: give each activity its own")]
    Taken,
    /// The answer finds no memory.
    #[error(transparent)]
    Memory(#[from] BudgetError),
    /// A document in the database is not one of ours.
    #[error("a stored document cannot be read ({0}): was the collection written by something else?")]
    Foreign(String),
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[from] mongodb::error::Error),
}

impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Self::Foreign(error.to_string())
    }
}
