//! Compiles and runs programs of the jq language on events.
//!
//! The input of a program is the payload (`transform/input`). Bounds apply to each run (`transform/bounds`).

use jaq_core::{Ctx, Exn, Vars};
use jaq_json::Val;

use super::bounds::{self, Bounded, Bounds, STEPS_MAX, is_json};
use super::error::ExpressionError;
use super::input::{Encoding, VARIABLES, payload, variables};
use super::program::{Program, compile};
use crate::event::{Batch, Event};

/// Bytes of a program's failure message at most.
const WORDS_BYTES_MAX: usize = 200;
/// Bytes of a program at most.
const PROGRAM_BYTES_MAX: usize = 64 << 10;

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
        let refuse =
            |reason: String| ExpressionError::Program { text: text.chars().take(60).collect(), reason };
        if text.len() > PROGRAM_BYTES_MAX {
            return Err(refuse(format!("it is longer than {PROGRAM_BYTES_MAX} bytes")));
        }
        let program = compile(text, VARIABLES).map_err(refuse)?;
        Ok(Self { program })
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

/// The reason of a program's failure. The message may contain a whole payload, so it is cut.
fn failed(why: Exn<'_, Val>) -> ExpressionError {
    ExpressionError::Failed(match why.get_err() {
        Ok(error) => bounds::written(&error, WORDS_BYTES_MAX).0,
        Err(_) => {
            "it called `halt`, and one event must not end a pipeline: return `empty` instead".to_owned()
        }
    })
}

/// A value as JSON.
///
/// # Errors
///
/// If it is longer than `bytes_max`, or has no JSON form.
pub(super) fn text(value: &Val, bytes_max: usize) -> Result<Vec<u8>, ExpressionError> {
    match bounds::written(value, bytes_max) {
        // The text may be no JSON. It is within the limit, so the whole value can be checked.
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
        assert!(words(run(".", &"[".repeat(1 << 20))).contains("nested"));
        assert_eq!(
            run(".", &format!("[\"{}\"]", "[".repeat(1000))).map(|text| text.map(|text| text.len())),
            Ok(Some(1004))
        );
    }

    /// The result of a program within `steps_max`, and a hundred bytes for a repeated text.
    fn bounded(steps_max: u64, program: &str) -> Result<Option<String>, ExpressionError> {
        let bounds = Bounds { steps_max, bytes_max: 100 };
        let input = json(br#"{"n": 5000000000, "two": 2, "text": "ab"}"#)?;
        let variables = VARIABLES.map(|_| Val::Null);
        let given = Expression::compile(program)?.give_within(bounds, input, variables)?;
        Ok(given.map(|value| value.to_string()))
    }

    #[test]
    fn an_endless_program_is_stopped_and_the_next_one_runs() {
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
    fn an_oversized_repetition_is_refused_before_it_is_made() {
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
            assert!(words.contains("bytes, and at most 100 are allowed"), "{program}: {words}");
        }
    }

    #[test]
    fn products_have_the_results_of_jq() {
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
    fn halt_ends_only_the_program() {
        let words = bounded(10_000, "halt").unwrap_err().to_string();
        assert!(words.contains("one event must not end a pipeline"), "{words}");
    }
}
