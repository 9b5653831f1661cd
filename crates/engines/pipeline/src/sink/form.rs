//! Formats an event for a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::event::{Batch, Event};

/// Formats an event for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The payload, one per line. It must not contain a line break. An event without a payload (a delete) is refused.
    #[default]
    Lines,
    /// The payloads back to back: BSON documents.
    Raw,
    /// One JSON object per line with topic, partition, offset, time, key, headers and payload: for dead letters. Bytes that
    /// are not UTF-8 are written in hexadecimal, as `{"hex": …}`. Headers are pairs where a name repeats.
    Whole,
}

/// Appends an event in this form, or returns the reason of the failure.
pub(super) fn render(
    form: Form,
    out: &mut Vec<u8>,
    batch: &Batch,
    event: &Event,
) -> Result<(), &'static str> {
    let payload = match (form, batch.payload(event)) {
        (_, Some(payload)) => payload,
        (Form::Whole, None) => &[],
        (Form::Lines | Form::Raw, None) => {
            return Err("the event has no payload (a delete), so only its key is left: use `form: whole`");
        }
    };
    match form {
        Form::Lines if payload.contains(&b'\n') => {
            return Err(
                "the payload has a line break, so it cannot be a line: use `form: whole`, or `raw` for BSON",
            );
        }
        // The next start finds documents by their lengths.
        Form::Raw if !is_framed(payload) => {
            return Err("the payload is not a BSON document, which `form: raw` needs: use `form: whole`");
        }
        Form::Raw => out.extend_from_slice(payload),
        Form::Lines => {
            out.extend_from_slice(payload);
            out.push(b'\n');
        }
        Form::Whole => {
            out.extend_from_slice(whole(batch, event).to_string().as_bytes());
            out.push(b'\n');
        }
    }
    Ok(())
}

/// Whether the bytes begin with their length and end with zero, as a BSON document does.
fn is_framed(payload: &[u8]) -> bool {
    let length = payload.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    length == Some(payload.len()) && payload.last() == Some(&0)
}

/// Headers as an object, or as pairs if a name repeats.
fn headers(batch: &Batch, event: &Event) -> Value {
    let value = |value: Option<&[u8]>| value.map_or(Value::Null, text_or_hex);
    let all = || batch.headers(event);
    let object: Map<String, Value> = all().map(|(name, bytes)| (name.to_owned(), value(bytes))).collect();
    if object.len() == all().count() {
        return Value::Object(object);
    }
    all().map(|(name, bytes)| json!([name, value(bytes)])).collect()
}

fn whole(batch: &Batch, event: &Event) -> Value {
    json!({
        "topic": &*batch.partition().topic,
        "partition": batch.partition().index,
        "offset": event.offset,
        "appended_ms": event.appended_ms,
        "key": batch.key(event).map(text_or_hex),
        "headers": headers(batch, event),
        "payload": batch.payload(event).map(text_or_hex),
    })
}

fn text_or_hex(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({"hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    #[test]
    fn a_repeated_header_is_kept() {
        let mut batch = Batch::new(Partition::new("t", 1));
        let header = |value: &'static str| ("h", Some(value.as_bytes()));
        batch.push_with(Record::default(), [header("1"), ("i", None), header("2")]);
        let whole = whole(&batch, &batch.events()[0]);
        assert_eq!(whole["headers"], json!([["h", "1"], ["i", null], ["h", "2"]]));
    }
}
