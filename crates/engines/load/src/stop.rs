//! Ends a phase or one of its loads: after a time, operations or documents, whichever comes first.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of a phase or a load, as typed; the first limit that is reached ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// After this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// After this many operations of each load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// After this many operations of each writer of a closed load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_each: Option<u64>,
    /// After this many documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
}

/// A phase would never end, or never start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No limit is given.
    #[error(
        "a phase without an end: give stop at least one of duration, operations, operations_each, documents"
    )]
    Endless,
    /// A limit is zero.
    #[error("stop {0} is zero: give a number over 0")]
    Nothing(&'static str),
}

impl Stop {
    /// Checks that the phase starts and ends.
    ///
    /// # Errors
    /// The missing or zero limit.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            _ if *self == Self::default() => Err(Error::Endless),
            Self { duration: Some(span), .. } if span.as_ns() == 0 => Err(Error::Nothing("duration")),
            Self { operations: Some(0), .. } => Err(Error::Nothing("operations")),
            Self { operations_each: Some(0), .. } => Err(Error::Nothing("operations_each")),
            Self { documents: Some(0), .. } => Err(Error::Nothing("documents")),
            _ => Ok(()),
        }
    }

    /// Combines both: the smaller limit of each kind.
    pub fn and(self, other: Self) -> Self {
        Self {
            duration: nearer(self.duration, other.duration),
            operations: nearer(self.operations, other.operations),
            operations_each: nearer(self.operations_each, other.operations_each),
            documents: nearer(self.documents, other.documents),
        }
    }
}

fn nearer<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_needs_a_limit_over_zero() {
        assert_eq!(Stop::default().check(), Err(Error::Endless));
        let zero = Stop { documents: Some(0), duration: Some(Span::from_secs(1)), ..Stop::default() };
        assert_eq!(zero.check(), Err(Error::Nothing("documents")));
        assert_eq!(Stop { operations: Some(1), ..Stop::default() }.check(), Ok(()));
        let each = Stop { operations_each: Some(0), ..Stop::default() };
        assert_eq!(each.check(), Err(Error::Nothing("operations_each")));
    }

    #[test]
    fn the_smaller_of_two_limits_counts() {
        let one = Stop { operations: Some(5), documents: Some(9), ..Stop::default() };
        let other = Stop { operations: Some(7), operations_each: Some(2), ..Stop::default() };
        let both = Stop { operations: Some(5), operations_each: Some(2), documents: Some(9), duration: None };
        assert_eq!(one.and(other), both);
        assert_eq!(other.and(one), both);
    }
}
