//! What became of an operation or a document: acknowledged, rejected by class, or unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of an operation or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server said that it is done, at the declared write concern.
    Acknowledged,
    /// The server said that it is not done.
    Rejected(Rejection),
    /// It may or may not be done.
    Unknown(Doubt),
}

/// Why a server refused an operation or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// A unique index holds that key already.
    DuplicateKey,
    /// The collection's validator refused the document.
    Validation,
    /// Document or message over the server's limit.
    TooLarge,
    /// Not allowed, or not logged in.
    Unauthorized,
    /// The server is not the primary.
    NotPrimary,
    /// The server shed load.
    Overload,
    /// The server does not understand the command.
    BadCommand,
    /// An earlier document of an ordered batch failed, so this one was not tried.
    NotTried,
    /// The answer came, and is not what the operation expects.
    Unexpected,
    /// A read showed an earlier version of a document than the one acknowledged before it.
    StaleRead,
    /// A read showed a document whose content is none that was ever sent.
    CorruptedRead,
    /// Anything else.
    Other,
}

/// Why it cannot be known whether an operation was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// No answer within the time limit.
    Timeout,
    /// The connection ended before the answer.
    ConnectionLost,
    /// Applied, but not shown to be as durable as was asked.
    WriteConcern,
    /// The server was stopping or stepping down.
    Interrupted,
    /// No answer was asked for (`w: 0`).
    Unacknowledged,
}

impl Rejection {
    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::DuplicateKey,
        Self::Validation,
        Self::TooLarge,
        Self::Unauthorized,
        Self::NotPrimary,
        Self::Overload,
        Self::BadCommand,
        Self::NotTried,
        Self::Unexpected,
        Self::StaleRead,
        Self::CorruptedRead,
        Self::Other,
    ];

    /// The class's name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DuplicateKey => "duplicate_key",
            Self::Validation => "validation",
            Self::TooLarge => "too_large",
            Self::Unauthorized => "unauthorized",
            Self::NotPrimary => "not_primary",
            Self::Overload => "overload",
            Self::BadCommand => "bad_command",
            Self::NotTried => "not_tried",
            Self::Unexpected => "unexpected",
            Self::StaleRead => "stale_read",
            Self::CorruptedRead => "corrupted_read",
            Self::Other => "other",
        }
    }
}

impl Doubt {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Timeout, Self::ConnectionLost, Self::WriteConcern, Self::Interrupted, Self::Unacknowledged];

    /// The cause's name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ConnectionLost => "connection_lost",
            Self::WriteConcern => "write_concern",
            Self::Interrupted => "interrupted",
            Self::Unacknowledged => "unacknowledged",
        }
    }
}

/// How many operations or documents failed, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    rejected: [u64; Rejection::ALL.len()],
    unknown: [u64; Doubt::ALL.len()],
}

impl Failures {
    /// Counts `count` more of `outcome`; acknowledged ones are no failure.
    pub fn add(&mut self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Acknowledged => {}
            Outcome::Rejected(class) => self.rejected[class as usize] += count,
            Outcome::Unknown(cause) => self.unknown[cause as usize] += count,
        }
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.rejected.iter_mut().zip(other.rejected).for_each(|(sum, part)| *sum += part);
        self.unknown.iter_mut().zip(other.unknown).for_each(|(sum, part)| *sum += part);
    }

    /// How many were rejected, or are unknown though an answer was asked for.
    pub fn total(&self) -> u64 {
        self.rejected() + self.unknown() - self.of(Outcome::Unknown(Doubt::Unacknowledged))
    }

    /// How many the server refused.
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// How many may or may not have been done.
    pub fn unknown(&self) -> u64 {
        self.unknown.iter().sum()
    }

    /// How many ended in exactly this way.
    pub fn of(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Acknowledged => 0,
            Outcome::Rejected(class) => self.rejected[class as usize],
            Outcome::Unknown(cause) => self.unknown[cause as usize],
        }
    }

    /// Every class that occurred, by name, with its count.
    pub fn by_class(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let rejected = Rejection::ALL.iter().map(|class| (class.name(), self.rejected[*class as usize]));
        let unknown = Doubt::ALL.iter().map(|cause| (cause.name(), self.unknown[*cause as usize]));
        rejected.chain(unknown).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_numbers_follow_the_order_of_all() {
        assert!(Rejection::ALL.iter().enumerate().all(|(index, class)| *class as usize == index));
        assert!(Doubt::ALL.iter().enumerate().all(|(index, cause)| *cause as usize == index));
    }

    #[test]
    fn writes_without_acknowledgement_are_unknown_but_no_error() {
        let mut failures = Failures::default();
        failures.add(Outcome::Unknown(Doubt::Unacknowledged), 5);
        failures.add(Outcome::Rejected(Rejection::DuplicateKey), 2);
        assert_eq!((failures.total(), failures.unknown(), failures.rejected()), (2, 5, 2));
    }
}
