//! Runs programs of the jq language on events.
//!
//! The input of a program is the payload (`transform/input`).

use jaq_json::Val;
use plimsoll_jq::{Bounds, Program, STEPS_MAX, is_json, written};

use super::error::ExpressionError;
use super::input::{Encoding, VARIABLES, payload, variables};
use crate::event::{Batch, Event};

/// A program of the jq language.
pub struct Expression {
    program: Program,
}

impl Expression {
    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// If it is invalid, or longer than 64 KiB.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { program: Program::compile(text, VARIABLES)? })
    }

    /// The result for an event: one value or none.
    ///
    /// # Errors
    ///
    /// If the payload is not in this encoding, or the program fails or returns more than one value.
    pub fn run(
        &self,
        encoding: Encoding,
        batch: &Batch,
        event: &Event,
    ) -> Result<Option<Val>, ExpressionError> {
        self.give(payload(encoding, batch, event)?, batch, event)
    }

    /// The result for a value of an event: one value or none.
    ///
    /// # Errors
    ///
    /// If it fails or returns more than one value.
    pub fn give(&self, input: Val, batch: &Batch, event: &Event) -> Result<Option<Val>, ExpressionError> {
        let bounds = Bounds { steps_max: STEPS_MAX, bytes_max: batch.event_bytes_max() };
        Ok(self.program.run(bounds, input, variables(batch, event))?)
    }
}

/// A value as JSON.
///
/// # Errors
///
/// If it is longer than `bytes_max`, or has no JSON form.
pub(super) fn text(value: &Val, bytes_max: usize) -> Result<Vec<u8>, ExpressionError> {
    match written(value, bytes_max) {
        // A value without a JSON form is written too. The text is within the limit, so the whole value can be
        // checked.
        (_, true) if !is_json(value) => Err(ExpressionError::NotJson),
        (text, true) => Ok(text.into_bytes()),
        (_, false) => Err(ExpressionError::Oversize(bytes_max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    fn run(program: &str, payload: &str) -> Result<Option<String>, ExpressionError> {
        let mut batch = Batch::new(Partition::new("orders", 2));
        let record =
            Record { offset: 41, appended_ms: 1000, key: Some(b"eu"), payload: Some(payload.as_bytes()) };
        batch.push(record);
        let value = Expression::compile(program)?.run(Encoding::Json, &batch, &batch.events()[0])?;
        Ok(value.map(|value| value.to_string()))
    }

    #[test]
    fn programs_see_payload_key_and_offset() {
        let check = |program: &str, expected: Option<&str>| {
            let given = run(program, r#"{"a": 1, "b": {"c": "x"}}"#);
            assert_eq!(given, Ok(expected.map(str::to_owned)), "{program}");
        };
        check(".b.c", Some(r#""x""#));
        check("{a, k: $key, o: $offset}", Some(r#"{"a":1,"k":"eu","o":41}"#));
        check("del(.b) | .t = $topic", Some(r#"{"a":1,"t":"orders"}"#));
        check("select(.a > 1)", None);
    }

    #[test]
    fn errors_name_the_problem() {
        let words = |given: Result<_, ExpressionError>| given.unwrap_err().to_string();
        assert!(words(run(".a |", "{}")).contains("not a program"), "{}", words(run(".a |", "{}")));
        assert!(
            words(run("nonsense(.a)", "{}")).contains("`nonsense`"),
            "{}",
            words(run("nonsense(.a)", "{}"))
        );
        assert!(words(run(".", "{")).contains("not JSON"));
        assert!(words(run(".a + {}", r#"{"a": 1}"#)).contains("failed"));
        assert_eq!(run(".[]", "[1, 2]"), Err(ExpressionError::Several));
        assert!(words(run("halt", "{}")).contains("one event must not end a pipeline"));
        assert!(words(run(".", &"[".repeat(1 << 20))).contains("nested"));
        assert_eq!(
            run(".", &format!("[\"{}\"]", "[".repeat(1000))).map(|text| text.map(|text| text.len())),
            Ok(Some(1004))
        );
    }
}
