//! Defines the errors of feeds.

use plimsoll_service::BudgetError;

/// A feed could not be opened, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error("feeds: {0}")]
    Setting(String),
    /// The database holds feeds of an incompatible design.
    #[error(
        "the feeds in this database have the design `{was}`, and `on_write` needs copies that are missing: set feeds.design to \
         `{was}`, or use another database"
    )]
    IncompatibleDesign {
        /// The design of the stored feeds.
        was: String,
    },
    /// A user would follow too many users.
    #[error("a user follows at most {most} others: unfollow some first")]
    TooMany {
        /// The largest number of users that one user follows.
        most: u32,
    },
    /// A user tries to follow themselves.
    #[error("users see their own activities anyway: follow somebody else")]
    SelfFollow,
    /// Another user's activity has the id.
    #[error("another user's activity has this id: give each activity its own")]
    IdTaken,
    /// The memory budget does not cover the answer.
    #[error(transparent)]
    Memory(#[from] BudgetError),
    /// A document in the database has a foreign form.
    #[error("a stored document is invalid ({0}): did another program write to the collection?")]
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
