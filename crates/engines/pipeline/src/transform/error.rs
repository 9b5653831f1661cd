//! Explains why a program is invalid or an event cannot be processed by it.

use plimsoll_jq::STEPS_MAX;
use thiserror::Error;

use super::extended::ConversionError;
use crate::event::CauseClass;

const HALTED: &str = "it called `halt`, and one event must not end a pipeline: return `empty` instead";

/// The failure of a program, at compilation or for an event.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExpressionError {
    /// The text is not a program of the jq language.
    #[error("`{text}` is not a program of the jq language: {reason}")]
    Program {
        /// The beginning of the program.
        text: String,
        /// The reason.
        reason: String,
    },
    /// The payload is not JSON.
    #[error("the payload is not JSON: {0}")]
    Payload(String),
    /// The payload or the result cannot be converted from or to BSON.
    #[error(transparent)]
    ConversionError(#[from] ConversionError),
    /// The program failed for this payload.
    #[error("the expression failed: {0}")]
    Failed(String),
    /// The program returned more than one value.
    #[error("the expression returned more than one value, and one event must stay one event")]
    Several,
    /// The program took too many steps.
    #[error("the expression took more than {STEPS_MAX} steps: does it end?")]
    Endless,
    /// The program's recursion was too deep.
    #[error("the recursion of the expression is too deep: use a tail call, or `reduce`")]
    Deep,
    /// The program's result has no JSON form.
    #[error(
        "the expression returned a value without a JSON form: NaN, an infinite number, bytes, or a key that is not a text"
    )]
    NotJson,
    /// The program's result is too large.
    #[error("the expression returned more than {0} bytes: raise `in_flight.event`")]
    Oversize(usize),
}

impl ExpressionError {
    /// The class of the cause.
    pub const fn class(&self) -> CauseClass {
        match self {
            Self::Oversize(_) => CauseClass::Oversize,
            _ => CauseClass::Invalid,
        }
    }
}

impl From<plimsoll_jq::Error> for ExpressionError {
    fn from(error: plimsoll_jq::Error) -> Self {
        use plimsoll_jq::Error;
        match error {
            Error::Invalid { text, reason } => Self::Program { text, reason },
            Error::Input(reason) => Self::Payload(reason),
            Error::Failed(reason) => Self::Failed(reason),
            Error::Halted => Self::Failed(HALTED.to_owned()),
            Error::Several => Self::Several,
            Error::Endless => Self::Endless,
            Error::Deep => Self::Deep,
        }
    }
}
