//! Extracts the text from a payload.

use std::borrow::Cow;
use std::str;

use bson::RawDocument;
use serde_json::Value;

/// The position of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextLocation {
    /// The payload is the text.
    Whole,
    /// The text is a field of a JSON object; these names lead to it.
    Json(Vec<String>),
    /// The text is a field of a BSON document; these names lead to it.
    Bson(Vec<String>),
}

impl TextLocation {
    /// Returns the text in a payload.
    ///
    /// # Errors
    /// The payload has another format, or lacks the text.
    pub(crate) fn text<'p>(&self, payload: &'p [u8]) -> Result<Cow<'p, str>, String> {
        match self {
            TextLocation::Whole => {
                str::from_utf8(payload).map(Cow::Borrowed).map_err(|error| error.to_string())
            }
            TextLocation::Json(path) => json(payload, path).map(Cow::Owned),
            TextLocation::Bson(path) => binary(payload, path).map(Cow::Borrowed),
        }
    }
}

fn json(payload: &[u8], path: &[String]) -> Result<String, String> {
    let whole: Value = serde_json::from_slice(payload).map_err(|error| format!("invalid JSON: {error}"))?;
    let found = path.iter().try_fold(whole, |mut value, name| value.get_mut(name).map(Value::take));
    match found {
        Some(Value::String(text)) => Ok(text),
        _ => Err(format!("the field {} is missing or not a text", path.join("."))),
    }
}

fn binary<'p>(payload: &'p [u8], path: &[String]) -> Result<&'p str, String> {
    let broken = |error: bson::error::Error| format!("invalid BSON: {error}");
    let missing = || format!("the field {} is missing or not a text", path.join("."));
    let (last, above) = path.split_last().ok_or_else(missing)?;
    let mut document = RawDocument::from_bytes(payload).map_err(broken)?;
    for name in above {
        let value = document.get(name).map_err(broken)?;
        document = value.and_then(|value| value.as_document()).ok_or_else(missing)?;
    }
    document.get(last).map_err(broken)?.and_then(|value| value.as_str()).ok_or_else(missing)
}
