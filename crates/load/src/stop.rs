//! When a phase ends: by time, by operations, by documents, whichever comes first.

use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a phase ends, as typed; the first limit that is reached ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// After this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// After this many operations of each load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// After this many documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
}

/// A phase that would never end, or never start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No limit at all.
    #[error("a phase without an end: give stop at least one of duration, operations, documents")]
    Endless,
    /// A limit of nothing.
    #[error("stop {0} is zero: give a number over 0")]
    Nothing(&'static str),
}

impl Stop {
    /// Checks that the phase starts and ends.
    ///
    /// # Errors
    /// What is missing or zero.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self { duration: None, operations: None, documents: None } => Err(Error::Endless),
            Self { duration: Some(span), .. } if span.as_ns() == 0 => Err(Error::Nothing("duration")),
            Self { operations: Some(0), .. } => Err(Error::Nothing("operations")),
            Self { documents: Some(0), .. } => Err(Error::Nothing("documents")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_needs_an_end_that_is_not_its_start() {
        assert_eq!(Stop::default().check(), Err(Error::Endless));
        let zero = Stop { documents: Some(0), duration: Some(Span::from_secs(1)), operations: None };
        assert_eq!(zero.check(), Err(Error::Nothing("documents")));
        assert_eq!(Stop { operations: Some(1), ..Stop::default() }.check(), Ok(()));
    }
}
