//! Programs of the jq language over an event.
//!
//! The input of a program is the payload, read as JSON or as BSON (`transform/extended`). `$key` (text or null), `$timestamp`
//! (milliseconds), `$topic`, `$partition` and `$offset` are its variables.

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::extended::{self, Unmapped};
use crate::event::{Batch, Event};

type Program = jaq_core::compile::Filter<jaq_core::Native<data::JustLut<Val>>>;

/// The names of a program's variables, in the order in which they are given.
const VARIABLES: [&str; 5] = ["$key", "$timestamp", "$topic", "$partition", "$offset"];
/// How deep the arrays and objects of a payload may be nested: the parser needs stack for each level.
const DEPTH_MAX: usize = 256;
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
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let modules = Loader::new(defs).load(&arena, File { code: text, path: () });
        let modules = modules.map_err(|errors| refuse(load_reason(&errors)))?;
        let compiler = Compiler::default().with_funs(funs).with_global_vars(VARIABLES);
        let program = compiler.compile(modules).map_err(|errors| refuse(compile_reason(&errors)))?;
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
        let input = match (encoding, batch.payload(event)) {
            (_, None) => Val::Null,
            (Encoding::Json, Some(payload)) => json(payload)?,
            (Encoding::Bson, Some(payload)) => extended::read(extended::document(payload)?)?,
        };
        self.give(input, batch, event)
    }

    /// What it gives for a value that an event holds: nothing, or one value.
    ///
    /// # Errors
    ///
    /// If it fails or gives more than one value.
    pub fn give(&self, input: Val, batch: &Batch, event: &Event) -> Result<Option<Val>, ExpressionError> {
        let ctx = Ctx::<data::JustLut<Val>>::new(&self.program.lut, Vars::new(variables(batch, event)));
        let mut out = self.program.id.run((ctx, input)).map(unwrap_valr);
        let first =
            out.next().transpose().map_err(|error| ExpressionError::Failed(brief(&error.to_string())))?;
        match out.next() {
            None => Ok(first),
            Some(_) => Err(ExpressionError::Several),
        }
    }
}

fn json(payload: &[u8]) -> Result<Val, ExpressionError> {
    if depth(payload) > DEPTH_MAX {
        return Err(ExpressionError::Payload(format!("it is nested more than {DEPTH_MAX} deep")));
    }
    read::parse_single(payload).map_err(|error| ExpressionError::Payload(error.to_string()))
}

/// How deep the brackets outside of texts are nested at most.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut most, mut text, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match (text, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => text = !text,
            (false, _, b'[' | b'{') => depth += 1,
            (false, _, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

fn variables(batch: &Batch, event: &Event) -> [Val; 5] {
    let text = |bytes: &[u8]| Val::from(String::from_utf8_lossy(bytes).into_owned());
    let number = |number: u64| isize::try_from(number).map_or(Val::Null, Val::from);
    [
        batch.key(event).map_or(Val::Null, text),
        number(event.appended_ms),
        text(batch.partition().topic.as_bytes()),
        number(u64::from(batch.partition().index)),
        number(event.offset),
    ]
}

/// The beginning of what a program said: it may hold a whole payload.
fn brief(words: &str) -> String {
    words.chars().take(200).collect()
}

fn load_reason<P>(errors: &jaq_core::load::Errors<&str, P>) -> String {
    match errors.first().map(|(_, error)| error) {
        Some(jaq_core::load::Error::Lex(errors)) => {
            errors.first().map_or_else(String::new, |(expected, at)| {
                format!("expected {} at {:?}", expected.as_str(), brief(at))
            })
        }
        Some(jaq_core::load::Error::Parse(errors)) => {
            errors.first().map_or_else(String::new, |(expected, at)| {
                format!("expected {} at {:?}", expected.as_str(), brief(at))
            })
        }
        Some(jaq_core::load::Error::Io(_)) | None => "it names a file, and programs stand alone here".into(),
    }
}

fn compile_reason<P>(errors: &jaq_core::compile::Errors<&str, P>) -> String {
    let first = errors.first().and_then(|(_, errors)| errors.first());
    first
        .map_or_else(String::new, |(name, undefined)| format!("{} `{name}` is not known", undefined.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;

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
}
