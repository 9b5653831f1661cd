//! Classifies the outcome of an operation or a document: acknowledged, rejected, or unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The outcome of an operation or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server acknowledged it, at the declared write concern.
    Acknowledged,
    /// The server rejected it.
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
    /// The answer differs from the expected one.
    Unexpected,
    /// A read showed an earlier version of a document than the one acknowledged before it.
    StaleRead,
    /// A read returned a document with content that was never sent.
    CorruptedRead,
    /// The answer is larger than is taken: a limit of ours, not of the server.
    AnswerTooLarge,
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
    /// The answer was invalid.
    MalformedAnswer,
}

impl Rejection {
    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 13] = [
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
        Self::AnswerTooLarge,
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
            Self::AnswerTooLarge => "answer_too_large",
            Self::Other => "other",
        }
    }
}

impl Doubt {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Timeout,
        Self::ConnectionLost,
        Self::WriteConcern,
        Self::Interrupted,
        Self::Unacknowledged,
        Self::MalformedAnswer,
    ];

    /// The cause's name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ConnectionLost => "connection_lost",
            Self::WriteConcern => "write_concern",
            Self::Interrupted => "interrupted",
            Self::Unacknowledged => "unacknowledged",
            Self::MalformedAnswer => "malformed_answer",
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

/// By class: those that occurred, with their counts.
impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_class())
    }
}

impl<'de> Deserialize<'de> for Failures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut failures = Self::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let outcome = class(&name);
            let outcome = outcome.ok_or_else(|| D::Error::custom(format!("no class is called `{name}`")))?;
            failures.add(outcome, count);
        }
        Ok(failures)
    }
}

/// The class of a name.
fn class(name: &str) -> Option<Outcome> {
    let rejected = Rejection::ALL.into_iter().find(|class| class.name() == name).map(Outcome::Rejected);
    rejected.or_else(|| Doubt::ALL.into_iter().find(|cause| cause.name() == name).map(Outcome::Unknown))
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
    fn every_class_reads_back_from_its_name() {
        let mut failures = Failures::default();
        let rejected = Rejection::ALL.into_iter().map(Outcome::Rejected);
        let all = rejected.chain(Doubt::ALL.into_iter().map(Outcome::Unknown));
        all.zip(1..).for_each(|(outcome, count)| failures.add(outcome, count));
        let text = serde_json::to_string(&failures).unwrap();
        assert_eq!(serde_json::from_str::<Failures>(&text).unwrap(), failures);
        assert!(serde_json::from_str::<Failures>(r#"{"tired": 1}"#).is_err());
    }

    #[test]
    fn writes_without_acknowledgement_are_unknown_but_no_error() {
        let mut failures = Failures::default();
        failures.add(Outcome::Unknown(Doubt::Unacknowledged), 5);
        failures.add(Outcome::Rejected(Rejection::DuplicateKey), 2);
        assert_eq!((failures.total(), failures.unknown(), failures.rejected()), (2, 5, 2));
    }
}
