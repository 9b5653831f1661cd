//! Converts an event to the input of a program: the payload, read as JSON or as BSON (`transform/extended`), and the
//! variables `$key` (text or null), `$timestamp` (milliseconds), `$topic`, `$partition` and `$offset`.

use jaq_json::{Val, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ExpressionError;
use super::extended;
use crate::event::{Batch, Event};

/// The names of a program's variables, in the order of [`variables`].
pub(super) const VARIABLES: [&str; 5] = ["$key", "$timestamp", "$topic", "$partition", "$offset"];
/// The deepest nesting of a payload: the parser needs stack for each level.
const DEPTH_MAX: usize = 256;

/// The encoding of payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// JSON text.
    #[default]
    Json,
    /// BSON documents. Programs see relaxed extended JSON. Unchanged fields keep their types.
    Bson,
}

/// The payload of an event as a value.
///
/// # Errors
///
/// If it is not in this encoding.
pub(super) fn payload(encoding: Encoding, batch: &Batch, event: &Event) -> Result<Val, ExpressionError> {
    Ok(match (encoding, batch.payload(event)) {
        (_, None) => Val::Null,
        (Encoding::Json, Some(payload)) => json(payload)?,
        (Encoding::Bson, Some(payload)) => extended::read(extended::document(payload)?)?,
    })
}

/// A text of JSON as a value.
///
/// # Errors
///
/// If it is invalid, or nested too deep.
pub(super) fn json(payload: &[u8]) -> Result<Val, ExpressionError> {
    if depth(payload) > DEPTH_MAX {
        return Err(ExpressionError::Payload(format!("it is nested deeper than {DEPTH_MAX} levels")));
    }
    read::parse_single(payload).map_err(|error| ExpressionError::Payload(error.to_string()))
}

/// The deepest nesting of brackets outside of texts.
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

/// The values of the variables for an event.
pub(super) fn variables(batch: &Batch, event: &Event) -> [Val; 5] {
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
