//! Classifies the outcome of an operation or a document: acknowledged, rejected, or unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::macros::named;

/// The outcome of an operation or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server acknowledged it, at the declared write concern.
    Acknowledged,
    /// The server rejected it.
    Rejected(Rejection),
    /// The operation may or may not be done.
    Unknown(Doubt),
}

named! {
    /// Why a server refused an operation or a document.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Rejection {
        /// A unique index already holds the key.
        DuplicateKey = "duplicate_key",
        /// The collection's validator refused the document.
        Validation = "validation",
        /// Document or message over the server's limit.
        TooLarge = "too_large",
        /// The user may not do this, or did not log in.
        Unauthorized = "unauthorized",
        /// The server is not the primary.
        NotPrimary = "not_primary",
        /// The server shed load.
        Overload = "overload",
        /// The server does not understand the command.
        BadCommand = "bad_command",
        /// Not sent: an earlier document of an ordered batch failed, or no server could be reached.
        NotTried = "not_tried",
        /// Not sent: this machine has no local port for a further connection.
        NoLocalPort = "no_local_port",
        /// The answer differs from the expected one.
        Unexpected = "unexpected",
        /// A read showed an earlier version of a document than the one acknowledged before it, or no document.
        StaleRead = "stale_read",
        /// A read showed an earlier version of a document than a read before it, or no document.
        NonMonotonicRead = "non_monotonic_read",
        /// A read returned a document with content that was never sent.
        CorruptedRead = "corrupted_read",
        /// The answer exceeds Plimsoll's own limit.
        AnswerTooLarge = "answer_too_large",
        /// Any other reason.
        Other = "other",
    }
}

named! {
    /// Why it is unknown whether an operation was done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Doubt {
        /// No answer within the time limit.
        Timeout = "timeout",
        /// The connection ended before the answer.
        ConnectionLost = "connection_lost",
        /// Applied, but perhaps not at the declared write concern.
        WriteConcern = "write_concern",
        /// The server was stopping or stepping down.
        Interrupted = "interrupted",
        /// No answer was asked for (`w: 0`).
        Unacknowledged = "unacknowledged",
        /// The answer was invalid.
        MalformedAnswer = "malformed_answer",
    }
}

impl Outcome {
    /// The name of a failure's class; `None` for a success and for a write that asked for no answer.
    pub const fn error_class(self) -> Option<&'static str> {
        match self {
            Self::Acknowledged | Self::Unknown(Doubt::Unacknowledged) => None,
            Self::Rejected(class) => Some(class.name()),
            Self::Unknown(cause) => Some(cause.name()),
        }
    }
}

/// The numbers of failed operations or documents, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    rejected: [u64; Rejection::ALL.len()],
    unknown: [u64; Doubt::ALL.len()],
}

impl Failures {
    /// Counts `count` more of `outcome`. An acknowledged outcome is not a failure.
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

    /// The number of errors: all failures without unacknowledged operations.
    pub fn total(&self) -> u64 {
        self.rejected() + self.unknown() - self.of(Outcome::Unknown(Doubt::Unacknowledged))
    }

    /// The number of rejected operations or documents.
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// The number of operations or documents with an unknown outcome.
    pub fn unknown(&self) -> u64 {
        self.unknown.iter().sum()
    }

    /// The number with this outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Acknowledged => 0,
            Outcome::Rejected(class) => self.rejected[class as usize],
            Outcome::Unknown(cause) => self.unknown[cause as usize],
        }
    }

    /// The names of all classes.
    pub fn classes() -> impl Iterator<Item = &'static str> + Clone {
        Rejection::ALL.iter().map(|class| class.name()).chain(Doubt::ALL.iter().map(|cause| cause.name()))
    }

    /// The number of failures of the class with this name.
    pub fn of_class(&self, name: &str) -> u64 {
        self.by_class().find(|(class, _)| *class == name).map_or(0, |(_, count)| count)
    }

    /// The errors that occurred, by the name of their class, with their counts: all failures without unacknowledged
    /// operations.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.by_class().filter(|(name, _)| *name != Doubt::Unacknowledged.name())
    }

    /// Whether nothing failed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Every outcome that occurred, without the documents that an ordered batch did not try: another failure is their cause.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> + '_ {
        let rejected = Rejection::ALL.iter().map(|class| Outcome::Rejected(*class));
        let unknown = Doubt::ALL.iter().map(|cause| Outcome::Unknown(*cause));
        let is_cause = |outcome: &Outcome| {
            !matches!(
                outcome,
                Outcome::Rejected(Rejection::NotTried) | Outcome::Unknown(Doubt::Unacknowledged)
            )
        };
        rejected.chain(unknown).filter(is_cause).filter(|outcome| self.of(*outcome) > 0)
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
    fn writes_without_acknowledgement_are_unknown_but_not_errors() {
        let mut failures = Failures::default();
        failures.add(Outcome::Unknown(Doubt::Unacknowledged), 5);
        failures.add(Outcome::Rejected(Rejection::DuplicateKey), 2);
        assert_eq!((failures.total(), failures.unknown(), failures.rejected()), (2, 5, 2));
    }
}
