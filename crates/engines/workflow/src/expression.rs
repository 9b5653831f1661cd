//! Evaluates jq programs of a definition on the data of an instance.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use plimsoll_jq::{Bounds, Error, Program, from_json, is_json, is_larger, to_json};
use serde_json::Value;

use crate::instance::bytes_of;

/// The variables of every program: the instance's id and key, the moment in milliseconds since 1970, and the data.
const VARIABLES: [&str; 4] = ["$instance", "$key", "$now", "$data"];
/// Steps of one evaluation at most: a tenth of a second.
pub(crate) const STEPS_MAX: u64 = 500_000;
/// Bytes of an instance's data whose conversion counts as one step.
const STEP_BYTES: usize = 64;
/// Bytes of an instance's data at most.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// A compiled program.
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
    program: Arc<Program>,
}

/// The surroundings of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The instance's id.
    pub instance: &'a str,
    /// The business key.
    pub key: Option<&'a str>,
    /// The moment, in milliseconds since 1970.
    pub now_ms: u64,
    /// The instance's data.
    pub data: &'a Value,
    /// The steps so far. Each evaluation adds its steps.
    pub steps: &'a Cell<u64>,
}

impl Expression {
    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub fn compile(text: &str) -> Result<Self, Error> {
        let program = Arc::new(Program::compile(text, VARIABLES)?);
        Ok(Self { text: text.into(), program })
    }

    /// Whether the program may read the clock.
    pub fn reads_clock(&self) -> bool {
        self.text.contains("$now")
    }

    /// The program's value for an input; `null` if it has none.
    ///
    /// # Errors
    ///
    /// If the program fails, or its value has no JSON form or is too large.
    pub fn value(&self, input: &Value, scope: Scope<'_>) -> Result<Value, String> {
        let words = |reason: &dyn fmt::Display| format!("`{}`: {reason}", self.text);
        let bounds = Bounds { steps_max: STEPS_MAX, bytes_max: DATA_BYTES_MAX };
        let variables = [
            Value::from(scope.instance),
            Value::from(scope.key),
            Value::from(scope.now_ms),
            scope.data.clone(),
        ];
        let (given, steps) = self.program.counted(bounds, from_json(input), variables.iter().map(from_json));
        let conversion = (bytes_of(input) + bytes_of(scope.data)) / STEP_BYTES;
        scope.steps.set(scope.steps.get().saturating_add(steps).saturating_add(conversion as u64));
        let Some(value) = given.map_err(|error| words(&error))? else { return Ok(Value::Null) };
        if is_larger(&value, DATA_BYTES_MAX) {
            return Err(words(&format!("the value is larger than {DATA_BYTES_MAX} bytes")));
        }
        if !is_json(&value) {
            return Err(words(&"the value has no JSON form"));
        }
        Ok(to_json(&value))
    }

    /// Whether the program returns neither `false` nor `null`.
    ///
    /// # Errors
    ///
    /// As [`Expression::value`].
    pub fn holds(&self, scope: Scope<'_>) -> Result<bool, String> {
        Ok(!matches!(self.value(scope.data, scope)?, Value::Null | Value::Bool(false)))
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Result<Value, String> {
        let data = json!({"a": 1});
        let steps = Cell::new(0);
        let scope = Scope { instance: "i", key: Some("k"), now_ms: 7, data: &data, steps: &steps };
        Expression::compile(text).unwrap().value(&data, scope)
    }

    #[test]
    fn a_program_sees_data_instance_key_and_time() {
        assert_eq!(value("[.a, $instance, $key, $now, $data.a]"), Ok(json!([1, "i", "k", 7, 1])));
        assert_eq!(value("empty"), Ok(Value::Null));
    }

    #[test]
    fn a_failing_program_names_itself() {
        assert!(value(".a.b").unwrap_err().starts_with("`.a.b`: the expression failed"));
        assert!(value("nan").unwrap_err().contains("no JSON form"));
        assert!(value("last(repeat(.))").unwrap_err().contains("steps"));
    }
}
