//! Defines the outcome of a reading.

use super::Fault;

/// The outcome of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The reading is new.
    New,
    /// The reading was stored before, or is a duplicate within the commit; it counts once. After a lost answer of the database
    /// the caller may see this on its first success.
    Known,
    /// A reading with this sensor, time and event was stored before. It lacked metrics, which this reading has added.
    Merged,
    /// A reading with this sensor, time and event was stored before, and has another value of a metric, which it keeps. Missing
    /// metrics are added.
    Differs,
}

impl Stored {
    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Known => "known",
            Self::Merged => "known, merged",
            Self::Differs => "known, differs",
        }
    }
}

/// The outcome of one reading of a commit.
pub(crate) type Written = Result<Stored, Fault>;
