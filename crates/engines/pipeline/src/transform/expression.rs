//! Programs of the jq language over an event.
//!
//! The input of a program is the payload (`transform/input`); what a run may use up is bounded (`transform/bounds`).

use jaq_core::{Ctx, Exn, Vars};
use jaq_json::Val;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bounds::{self, Beyond, Bounded, Bounds, STEPS_MAX};
use super::extended::Unmapped;
use super::input::{VARIABLES, payload, variables};
use super::program::{Program, compile};
use crate::event::{Batch, CauseClass, Event};

/// Bytes of what a program says of its failure at most.
const WORDS_BYTES_MAX: usize = 200;
/// Bytes of a program at most.
const PROGRAM_BYTES_MAX: usize = 64 << 10;

/// How payloads hold their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As JSON text.
    #[default]
    Json,
    /// As BSON documents. Programs see them as extended JSON in its relaxed form; what they do not change keeps its type.
    Bson,
}

/// A program of the jq language.
pub struct Expression {
    program: Program,
}

/// What is wrong with a program, or with an event that it is given.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExpressionError {
    /// It is no program.
    #[error("`{text}` is no program of the jq language: {reason}")]
    Program {
        /// Its beginning.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The payload is no JSON.
    #[error("the payload is no JSON: {0}")]
    Payload(String),
    /// The payload is no BSON that a program can see, or it gave what BSON has no form for.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
    /// The program failed with this payload.
    #[error("the expression failed: {0}")]
    Failed(String),
    /// It gave more than one value.
    #[error("the expression gave more than one value: an event stays one event")]
    Several,
    /// It did not end.
    #[error("the expression took more than {STEPS_MAX} steps: does it end?")]
    Endless,
    /// It went deeper and deeper.
    #[error("the expression calls itself too deep: let it call itself last, or `reduce`")]
    Deep,
    /// It gave too much.
    #[error("the expression gave more than {0} bytes: raise `in_flight.event`")]
    Oversize(usize),
}

impl ExpressionError {
    /// The class under which an event is condemned for it.
    pub const fn class(&self) -> CauseClass {
        match self {
            Self::Oversize(_) => CauseClass::Oversize,
            _ => CauseClass::Invalid,
        }
    }
}

impl From<Beyond> for ExpressionError {
    fn from(beyond: Beyond) -> Self {
        match beyond {
            Beyond::Steps => Self::Endless,
            Beyond::Stack => Self::Deep,
        }
    }
}

impl Expression {
    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// If it is none, or is longer than 64 KiB.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let refuse =
            |reason: String| ExpressionError::Program { text: text.chars().take(60).collect(), reason };
        if text.len() > PROGRAM_BYTES_MAX {
            return Err(refuse(format!("it is longer than {PROGRAM_BYTES_MAX} bytes")));
        }
        let program = compile(text, VARIABLES).map_err(refuse)?;
        Ok(Self { program })
    }

    /// What it gives for an event: nothing, or one value.
    ///
    /// # Errors
    ///
    /// If the payload is not in this encoding, or the program fails or gives more than one value.
    pub fn run(
        &self,
        encoding: Encoding,
        batch: &Batch,
        event: &Event,
    ) -> Result<Option<Val>, ExpressionError> {
        self.give(payload(encoding, batch, event)?, batch, event)
    }

    /// What it gives for a value that an event holds: nothing, or one value.
    ///
    /// # Errors
    ///
    /// If it fails or gives more than one value.
    pub fn give(&self, input: Val, batch: &Batch, event: &Event) -> Result<Option<Val>, ExpressionError> {
        let bounds = Bounds { steps_max: STEPS_MAX, bytes_max: batch.event_bytes_max() };
        self.give_within(bounds, input, variables(batch, event))
    }

    fn give_within(
        &self,
        bounds: Bounds,
        input: Val,
        variables: [Val; 5],
    ) -> Result<Option<Val>, ExpressionError> {
        bounds::within(&self.program.lut, bounds, |run| {
            let ctx = Ctx::<Bounded>::new(run, Vars::new(variables));
            let mut out = self.program.id.run((ctx, input)).map(|given| given.map_err(failed));
            let first = out.next().transpose()?;
            match out.next() {
                None => Ok(first),
                Some(_) => Err(ExpressionError::Several),
            }
        })?
    }
}

/// Why a program gave no value. What it says may hold a whole payload, so only its beginning is kept.
fn failed(why: Exn<'_, Val>) -> ExpressionError {
    ExpressionError::Failed(match why.get_err() {
        Ok(error) => bounds::written(&error, WORDS_BYTES_MAX).0,
        Err(_) => "it halted, and one event does not end a pipeline: let it give `empty`".to_owned(),
    })
}

/// A value as JSON.
///
/// # Errors
///
/// If that is longer than so many bytes.
pub(super) fn text(value: &Val, bytes_max: usize) -> Result<Vec<u8>, ExpressionError> {
    match bounds::written(value, bytes_max) {
        (text, true) => Ok(text.into_bytes()),
        (_, false) => Err(ExpressionError::Oversize(bytes_max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;
    use crate::transform::input::json;

    fn run(program: &str, payload: &str) -> Result<Option<String>, ExpressionError> {
        let mut batch = Batch::new(Partition::new("orders", 2));
        let record =
            Record { offset: 41, appended_ms: 1000, key: Some(b"eu"), payload: Some(payload.as_bytes()) };
        batch.push(record);
        let value = Expression::compile(program)?.run(Encoding::Json, &batch, &batch.events()[0])?;
        Ok(value.map(|value| value.to_string()))
    }

    #[test]
    fn programs_see_the_payload_and_where_the_event_stands() {
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
    fn what_is_wrong_is_said() {
        let words = |given: Result<_, ExpressionError>| given.unwrap_err().to_string();
        assert!(words(run(".a |", "{}")).contains("no program"), "{}", words(run(".a |", "{}")));
        assert!(
            words(run("nonsense(.a)", "{}")).contains("`nonsense`"),
            "{}",
            words(run("nonsense(.a)", "{}"))
        );
        assert!(words(run(".", "{")).contains("no JSON"));
        assert!(words(run(".a + {}", r#"{"a": 1}"#)).contains("failed"));
        assert_eq!(run(".[]", "[1, 2]"), Err(ExpressionError::Several));
        assert!(words(run(".", &"[".repeat(1 << 20))).contains("nested"));
        assert_eq!(
            run(".", &format!("[\"{}\"]", "[".repeat(1000))).map(|text| text.map(|text| text.len())),
            Ok(Some(1004))
        );
    }

    /// What a program gives within so many steps, and a hundred bytes for a text that is repeated.
    fn bounded(steps_max: u64, program: &str) -> Result<Option<String>, ExpressionError> {
        let bounds = Bounds { steps_max, bytes_max: 100 };
        let input = json(br#"{"n": 5000000000, "two": 2, "text": "ab"}"#)?;
        let variables = VARIABLES.map(|_| Val::Null);
        let given = Expression::compile(program)?.give_within(bounds, input, variables)?;
        Ok(given.map(|value| value.to_string()))
    }

    #[test]
    fn a_program_without_an_end_is_left_and_the_next_one_runs() {
        for program in [
            "last(repeat(.))",
            "def f: f; f",
            "last(range(0; 1; 0))",
            "[range(.n)] | length",
            "[limit(.n; repeat(1))] | length",
            "until(. == 1; .)",
            "try last(repeat(.)) catch 1",
        ] {
            assert_eq!(bounded(10_000, program), Err(ExpressionError::Endless), "{program}");
        }
        assert_eq!(bounded(u64::MAX, "def f: 1 + f; f"), Err(ExpressionError::Deep));
        assert_eq!(bounded(10_000, "[range(3)] | add").unwrap().unwrap(), "3");
        assert_eq!(bounded(10_000, "[range(5; 0; -2)]").unwrap().unwrap(), "[5,3,1]");
    }

    #[test]
    fn a_text_that_is_repeated_too_often_is_refused_before_it_is_made() {
        for program in [
            r#""x" * .n"#,
            r#".n * "x""#,
            r#".text *= .n"#,
            r#""x" * 99999999999999999999999999"#,
            r#"{a: ["\("x" * .n)"]}"#,
            r#"def f($x): .text * $x; f(.n)"#,
            r#".[if .text * .n == "" then "a" else "b" end]"#,
        ] {
            let words = bounded(10_000, program).unwrap_err().to_string();
            assert!(words.contains("bytes would be made, and 100 is the most"), "{program}: {words}");
        }
    }

    #[test]
    fn products_are_what_they_are_elsewhere() {
        for (program, expected) in [
            (".text * 3", r#""ababab""#),
            (".two * .text", r#""abab""#),
            (r#""x" * 0"#, "null"),
            (r#""x" * -99999999999999999999999999"#, "null"),
            (".two * .two * 3 + 1", "13"),
            ("[(1, 2) * (3, 4)]", "[3,4,6,8]"),
            ("{a: {b: 1}} * {a: {c: 2}}", r#"{"a":{"b":1,"c":2}}"#),
            ("{n, two} | .n *= .two | .two *= 2", r#"{"n":10000000000,"two":4}"#),
            (r#"try ("x" * .n) catch "much""#, r#""much""#),
            ("2 as $x | .two *= $x | .two", "4"),
        ] {
            assert_eq!(bounded(10_000, program).unwrap().as_deref(), Some(expected), "{program}");
        }
    }

    #[test]
    fn what_halts_a_program_halts_nothing_else() {
        let words = bounded(10_000, "halt").unwrap_err().to_string();
        assert!(words.contains("one event does not end a pipeline"), "{words}");
    }
}
