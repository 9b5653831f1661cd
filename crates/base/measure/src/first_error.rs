//! Keeps the first error of each class: one example says more than a count.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// The characters that are kept of a message or a command.
pub const TEXT_MAX: usize = 400;

/// The first error of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstError {
    /// The server's code: of MongoDB's `error_codes.yml`, or the HTTP status. Absent if the server did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The server's name of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The server's message, or the client's if the server did not answer; at most 400 characters.
    pub message: String,
    /// The command or request with types in place of values; at most 400 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The first error of a class of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationError {
    /// The operation's index in the plan.
    pub operation: usize,
    /// The name of the class.
    pub class: String,
    /// The error.
    pub error: FirstError,
}

/// Collects the first error of each operation and class. Every call after the first costs a lookup.
#[derive(Debug, Default)]
pub struct FirstErrors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    classes: BTreeSet<(usize, &'static str)>,
    fresh: Vec<OperationError>,
}

impl FirstError {
    /// An error with the server's code (0 if there is none), the code's name (may be empty) and a message.
    pub fn new(code: i32, name: &str, message: impl fmt::Display) -> Self {
        Self {
            code: (code != 0).then_some(code),
            name: (!name.is_empty()).then(|| name.to_owned()),
            message: cut(&message.to_string()),
            command: None,
        }
    }

    /// Adds the command that failed.
    #[must_use]
    pub fn of_command(self, command: &str) -> Self {
        Self { command: Some(cut(command)), ..self }
    }
}

/// Code, name and message, without the command.
impl fmt::Display for FirstError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, &self.name) {
            (Some(code), Some(name)) => write!(out, "{code} {name}: ")?,
            (Some(code), None) => write!(out, "{code}: ")?,
            (None, Some(name)) => write!(out, "{name}: ")?,
            (None, None) => {}
        }
        out.write_str(&self.message)
    }
}

impl FirstErrors {
    /// Keeps the error if it is the first of its class for this operation. A success has no class and is ignored.
    pub fn note(&self, operation: usize, outcome: Outcome, error: impl FnOnce() -> FirstError) {
        let Some(class) = outcome.error_class() else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.classes.insert((operation, class)) {
            known.fresh.push(OperationError { operation, class: class.to_owned(), error: error() });
        }
    }

    /// Returns the errors kept since the last call.
    pub fn take(&self) -> Vec<OperationError> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).fresh)
    }
}

/// One line of at most `TEXT_MAX` characters.
fn cut(text: &str) -> String {
    let mut kept: String =
        text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(TEXT_MAX).collect();
    if text.chars().nth(TEXT_MAX).is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Doubt, Rejection};

    const DUPLICATE: Outcome = Outcome::Rejected(Rejection::DuplicateKey);

    #[test]
    fn the_first_error_of_each_operation_and_class_is_kept() {
        let errors = FirstErrors::default();
        let error = |message: &'static str| move || FirstError::new(11000, "", message);
        errors.note(0, DUPLICATE, error("one"));
        errors.note(0, DUPLICATE, error("two"));
        errors.note(1, DUPLICATE, error("three"));
        errors.note(0, Outcome::Acknowledged, error("none"));
        errors.note(0, Outcome::Unknown(Doubt::Unacknowledged), error("none"));
        let kept: Vec<_> = errors.take().into_iter().map(|it| (it.operation, it.error.to_string())).collect();
        assert_eq!(kept, [(0, "11000: one".to_owned()), (1, "11000: three".to_owned())]);
        errors.note(0, DUPLICATE, error("four"));
        assert_eq!(errors.take(), []);
    }

    #[test]
    fn a_long_message_is_cut_to_one_line() {
        let error = FirstError::new(0, "", format!("a\nb{}", "é".repeat(TEXT_MAX)));
        assert_eq!(error.message.chars().count(), TEXT_MAX);
        assert!(error.message.starts_with("a bé") && error.message.ends_with("é…"));
        assert_eq!((error.code, error.name), (None, None));
    }
}
