//! Compiles document templates for JSON: refuses values that JSON cannot represent, and adds `$now`.
//!
//! `{$now: {}}` is the time at which the request is first sent, as RFC 3339 in UTC to the millisecond. `as: millis` writes
//! milliseconds since 1970, and `plus: -5s` shifts the time. A template's content depends only on seed and number, so the
//! template holds a mark of fixed width (binary data of a user-defined subtype). The time overwrites the mark when the request is
//! sent. A retry carries the time of the first attempt.

use base64::engine::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_document::{Identity, Program, Template};
use plimsoll_measure::duration::Span;
use serde_json::{Map, Value, json};

use super::{BODY_BYTES_MAX, Error};
use crate::json::{Stamp, StampForm};

/// The generator that this crate adds.
const NOW: &str = "$now";
/// Keys of Extended JSON whose values JSON cannot represent.
const NOT_JSON: [&str; 8] =
    ["$code", "$scope", "$dbPointer", "$maxKey", "$minKey", "$regularExpression", "$timestamp", "$undefined"];

/// The settings of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub seed: u64,
    pub start_ms: i64,
}

/// A document whose fields fill the placeholders of a head.
#[derive(Debug)]
pub(crate) struct Values {
    pub program: Program,
    /// The fields in their order.
    pub names: Vec<String>,
}

impl Values {
    pub(super) fn compile(place: &str, template: &Template, settings: Settings) -> Result<Self, Error> {
        let names = template.fields().keys().cloned().collect();
        Ok(Self { program: compile(place, template, settings)?, names })
    }
}

pub(super) fn compile(place: &str, template: &Template, settings: Settings) -> Result<Program, Error> {
    let mut fields = template.fields().clone();
    for (name, value) in &mut fields {
        admit(&format!("{place}.{name}"), value)?;
    }
    let template = Template::from(fields);
    let settings = plimsoll_document::Settings {
        seed: settings.seed,
        start_ms: settings.start_ms,
        id: if template.fields().contains_key("_id") {
            plimsoll_document::IdForm::Own
        } else {
            plimsoll_document::IdForm::ObjectId
        },
        stamp: None,
        bytes_max: BODY_BYTES_MAX,
    };
    let refuse = |source| match source {
        plimsoll_document::Error::TooLarge { bytes, .. } => {
            Error::BodyTooLarge { place: place.to_owned(), bytes }
        }
        fault => Error::Template { place: place.to_owned(), fault },
    };
    // The template is checked as a document, because a fragment accepts typos as operators. It is used as a fragment, because a
    // document gets an `_id`.
    Program::compile(&template, &settings).map_err(refuse)?;
    Program::fragment(&template, &settings).map_err(refuse)
}

/// Whether a typed value is the time of sending.
pub(super) fn is_time(value: &Value) -> bool {
    value.get(NOW).is_some()
}

/// The fields that are the time of sending, with the names of their objects: `at`, `source.at`.
pub(super) fn times(template: &Template) -> Vec<String> {
    fn add(place: &str, value: &Value, times: &mut Vec<String>) {
        match value {
            _ if is_time(value) => times.push(place.to_owned()),
            Value::Array(items) => items.iter().for_each(|item| add(place, item, times)),
            Value::Object(map) => map.iter().for_each(|(name, inner)| match inner {
                // The settings of a generator, such as the items of an array, belong to its field.
                Value::Object(settings) if name.starts_with('$') => {
                    settings.values().for_each(|setting| add(place, setting, times));
                }
                _ if name.starts_with('$') => add(place, inner, times),
                _ => add(&format!("{place}.{name}"), inner, times),
            }),
            _ => {}
        }
    }
    let mut times = Vec::new();
    template.fields().iter().for_each(|(name, value)| add(name, value, &mut times));
    times.dedup();
    times
}

/// Appends the document with this number.
pub(crate) fn encode(program: &Program, number: u64, out: &mut Vec<u8>) {
    program.encode(number, &Identity::default(), out);
}

/// Refuses values that JSON cannot represent, and replaces `$now` by its mark.
fn admit(place: &str, value: &mut Value) -> Result<(), Error> {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .enumerate()
            .try_for_each(|(index, item)| admit(&format!("{place}.{index}"), item)),
        Value::Object(map) => {
            refuse(place, map)?;
            if let Some(settings) = map.get(NOW) {
                *value = mark(&format!("{place}.{NOW}"), settings, map.len())?;
                return Ok(());
            }
            map.iter_mut().try_for_each(|(name, inner)| admit(&format!("{place}.{name}"), inner))
        }
        _ => Ok(()),
    }
}

fn refuse(place: &str, map: &Map<String, Value>) -> Result<(), Error> {
    let no_json = |what: String| Error::NoJson { place: place.to_owned(), what };
    if let Some(name) = NOT_JSON.iter().find(|name| map.contains_key(**name)) {
        return Err(no_json((*name).to_owned()));
    }
    let double = map.get("$numberDouble").and_then(Value::as_str).and_then(|text| text.parse::<f64>().ok());
    match double {
        Some(number) if !number.is_finite() => Err(no_json(format!("number {number}"))),
        _ => Ok(()),
    }
}

/// The mark of a timestamp: a constant of Extended JSON.
fn mark(place: &str, settings: &Value, keys: usize) -> Result<Value, Error> {
    let fail = |problem: String| Error::Now { place: place.to_owned(), problem };
    if keys > 1 {
        return Err(fail("it must be the only key of its object".into()));
    }
    let empty = Map::new();
    let settings = match settings {
        Value::Object(settings) => settings,
        Value::Null => &empty,
        other => return Err(fail(format!("{other} is not an object of settings"))),
    };
    let (mut form, mut plus_ms) = (StampForm::Text, 0);
    for (name, value) in settings {
        match (name.as_str(), value.as_str()) {
            ("as", Some("text")) => form = StampForm::Text,
            ("as", Some("millis")) => form = StampForm::Millis,
            ("plus", Some(text)) => {
                plus_ms = milliseconds(text).ok_or_else(|| fail(format!("`{text}` is not a duration")))?;
            }
            _ => return Err(fail(format!("there is no {name}: {value}"))),
        }
    }
    Ok(json!({"$binary": {"base64": STANDARD.encode(Stamp::encode(form, plus_ms)), "subType": "80"}}))
}

fn milliseconds(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let span: Span = text.parse().ok()?;
    Some(sign * i64::try_from(span.as_ns() / 1_000_000).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn check(document: Value) -> Result<(String, usize), String> {
        let template: Template = serde_json::from_value(document).unwrap();
        let settings = Settings { seed: 7, start_ms: 0 };
        let program = compile("op", &template, settings).map_err(|error| error.to_string())?;
        let (mut bson, mut out, mut stamps) = (Vec::new(), Vec::new(), Vec::new());
        encode(&program, 3, &mut bson);
        json::document(&bson, &mut out, &mut stamps);
        Ok((String::from_utf8(out).unwrap(), stamps.len()))
    }

    #[test]
    fn every_field_with_the_time_of_sending_is_found() {
        let template = json!({
            "a": {"$now": {}}, "b": {"c": {"$now": {"as": "millis"}}, "d": 1}, "e": [{"$now": {}}, {"f": {"$now": {}}}],
            "g": {"$array": {"of": {"$now": {}}, "length": 2}}, "h": {"$optional": {"value": {"$now": {}}}},
            "p": {"$pick": {"from": [1, {"$now": {}}], "weights": [1, 2]}}, "s": {"of": {"$now": {}}},
            "t": {"$array": {"of": {"of": {"$now": {}}}, "length": 2}},
        });
        let template: Template = serde_json::from_value(template).unwrap();
        assert_eq!(times(&template), ["a", "b.c", "e", "e.f", "g", "h", "p", "s.of", "t.of"]);
    }

    #[test]
    fn a_template_becomes_json_without_a_generated_id() {
        assert_eq!(check(json!({"n": {"$number": {}}, "t": "x"})).unwrap(), (r#"{"n":3,"t":"x"}"#.into(), 0));
        assert_eq!(check(json!({"_id": 5})).unwrap().0, r#"{"_id":5}"#);
    }

    #[test]
    fn the_generator_now_may_replace_any_constant() {
        let now = json!({"$now": {}});
        let document = json!({
            "a": now, "b": {"c": [now, {"$now": {"as": "millis", "plus": "-1.5s"}}]}, "d": {"$array": {"of": now, "length": 2}},
            "e": {"$same": "a"}, "f": {"$pick": [now, now]},
        });
        let (text, stamps) = check(document).unwrap();
        assert_eq!(stamps, 7, "{text}");
    }

    #[test]
    fn typing_errors_are_refused_at_any_depth_with_their_place() {
        for (document, words) in [
            (json!({"a": {"$now": {"in": "ms"}}}), "op.a.$now"),
            (json!({"a": {"$now": {}, "b": 1}}), "only key"),
            (json!({"a": [{"b": {"$now": {"plus": "soon"}}}]}), "op.a.0.b.$now"),
            (json!({"a": {"$array": {"of": {"$maxKey": 1}, "length": 2}}}), "op.a.$array.of"),
            (json!({"a": {"$numberDouble": "-Infinity"}}), "op.a"),
            (json!({"a": {"$set": 1}}), "$set"),
        ] {
            let error = check(document).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
