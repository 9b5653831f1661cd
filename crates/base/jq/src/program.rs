//! Compiles and runs one program. Bounds apply to each run (`bounds`).

use jaq_core::{Ctx, Exn, Vars};
use jaq_json::Val;

use crate::bounds::{self, Beyond, Bounded, Bounds, STEPS_MAX};
use crate::compile::{Compiled, compile};

/// Bytes of a program's failure message at most.
const WORDS_BYTES_MAX: usize = 200;
/// Bytes of a program at most.
const PROGRAM_BYTES_MAX: usize = 64 << 10;

/// A program of the jq language.
pub struct Program {
    compiled: Compiled,
}

/// The failure of a program, at compilation or for an input.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The text is not a program of the jq language.
    #[error("`{text}` is not a program of the jq language: {reason}")]
    Invalid {
        /// The beginning of the program.
        text: String,
        /// The reason.
        reason: String,
    },
    /// The input is not JSON.
    #[error("the input is not JSON: {0}")]
    Input(String),
    /// The program failed for this input.
    #[error("the expression failed: {0}")]
    Failed(String),
    /// The program called `halt`.
    #[error("the expression called `halt`: return `empty` instead")]
    Halted,
    /// The program returned more than one value.
    #[error("the expression returned more than one value: collect them in a list")]
    Several,
    /// The program took too many steps.
    #[error("the expression took more than {STEPS_MAX} steps: does it end?")]
    Endless,
    /// The program's recursion was too deep.
    #[error("the recursion of the expression is too deep: use a tail call, or `reduce`")]
    Deep,
}

impl From<Beyond> for Error {
    fn from(beyond: Beyond) -> Self {
        match beyond {
            Beyond::Steps => Self::Endless,
            Beyond::Stack => Self::Deep,
        }
    }
}

impl Program {
    /// Compiles a program with variables, whose names begin with `$`.
    ///
    /// # Errors
    ///
    /// If it is invalid, or longer than 64 KiB.
    pub fn compile(text: &str, variables: impl IntoIterator<Item = &'static str>) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Invalid { text: text.chars().take(60).collect(), reason };
        if text.len() > PROGRAM_BYTES_MAX {
            return Err(refuse(format!("it is longer than {PROGRAM_BYTES_MAX} bytes")));
        }
        Ok(Self { compiled: compile(text, variables).map_err(refuse)? })
    }

    /// The result for an input: one value or none. The values of the variables are in the order of their names.
    ///
    /// # Errors
    ///
    /// If it fails, exceeds a bound, or returns more than one value.
    pub fn run(
        &self,
        bounds: Bounds,
        input: Val,
        variables: impl IntoIterator<Item = Val>,
    ) -> Result<Option<Val>, Error> {
        self.counted(bounds, input, variables).0
    }

    /// The same, with the steps that the run took.
    pub fn counted(
        &self,
        bounds: Bounds,
        input: Val,
        variables: impl IntoIterator<Item = Val>,
    ) -> (Result<Option<Val>, Error>, u64) {
        let (given, steps) = bounds::within(&self.compiled.lut, bounds, |run| {
            let ctx = Ctx::<Bounded>::new(run, Vars::new(variables));
            let mut out = self.compiled.id.run((ctx, input)).map(|given| given.map_err(failed));
            let first = out.next().transpose()?;
            match out.next() {
                None => Ok(first),
                Some(_) => Err(Error::Several),
            }
        });
        (given.unwrap_or_else(|beyond| Err(beyond.into())), steps)
    }
}

/// The reason of a program's failure. The message may contain a whole input, so it is cut.
fn failed(why: Exn<'_, Val>) -> Error {
    match why.get_err() {
        Ok(error) => Error::Failed(bounds::written(&error, WORDS_BYTES_MAX).0),
        Err(_) => Error::Halted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    /// The result of a program within `steps_max`, with at most a hundred bytes for a repeated text.
    fn bounded(steps_max: u64, program: &str) -> Result<Option<String>, Error> {
        let bounds = Bounds { steps_max, bytes_max: 100 };
        let input = parse(br#"{"n": 5000000000, "two": 2, "text": "ab"}"#)?;
        let given = Program::compile(program, ["$key"])?.run(bounds, input, [Val::Null])?;
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
            assert_eq!(bounded(10_000, program), Err(Error::Endless), "{program}");
        }
        assert_eq!(bounded(u64::MAX, "def f: 1 + f; f"), Err(Error::Deep));
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
    fn the_steps_of_a_run_are_counted_also_if_it_fails() {
        let steps = |program: &str| {
            let bounds = Bounds { steps_max: 1_000, bytes_max: 100 };
            Program::compile(program, []).unwrap().counted(bounds, Val::Null, []).1
        };
        assert!(steps("1") < steps("[range(10)]") && steps("[range(10)]") < steps("[range(100)]"));
        assert_eq!(steps("last(repeat(.))"), 1_001);
    }

    #[test]
    fn halt_ends_only_the_program() {
        assert_eq!(bounded(10_000, "halt"), Err(Error::Halted));
    }
}
