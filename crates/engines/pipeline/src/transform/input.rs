//! Converts an event to the input of a program: the payload, read as JSON or as BSON (`transform/extended`), and the
//! variables `$key` (text or null), `$timestamp` (milliseconds), `$topic`, `$partition` and `$offset`.

use jaq_json::Val;
use plimsoll_jq::parse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ExpressionError;
use super::extended;
use crate::event::{Batch, Event};

/// The names of a program's variables, in the order of [`variables`].
pub(super) const VARIABLES: [&str; 5] = ["$key", "$timestamp", "$topic", "$partition", "$offset"];

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
        (Encoding::Json, Some(payload)) => parse(payload)?,
        (Encoding::Bson, Some(payload)) => extended::read(extended::document(payload)?)?,
    })
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
