//! Parses constants: plain JSON and MongoDB Extended JSON v2, canonical and relaxed.

use bson::{Bson, Document};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::node::Shape;

use crate::arguments::Args;

/// Each key of Extended JSON, and its form.
const FORMS: [(&str, &str); 17] = [
    ("$binary", r#"{"$binary": {"base64": "AQID", "subType": "00"}}"#),
    ("$code", r#"{"$code": "function() {}"}"#),
    ("$scope", r#"{"$code": "function() {}", "$scope": {}}"#),
    ("$date", r#"{"$date": "2026-01-31T00:00:00Z"}"#),
    ("$dbPointer", r#"{"$dbPointer": {"$ref": "db.c", "$id": {"$oid": "65a100000000000000000000"}}}"#),
    ("$maxKey", r#"{"$maxKey": 1}"#),
    ("$minKey", r#"{"$minKey": 1}"#),
    ("$numberDecimal", r#"{"$numberDecimal": "9.99"}"#),
    ("$numberDouble", r#"{"$numberDouble": "1.5"}"#),
    ("$numberInt", r#"{"$numberInt": "5"}"#),
    ("$numberLong", r#"{"$numberLong": "5"}"#),
    ("$oid", r#"{"$oid": "65a100000000000000000000"}"#),
    ("$regularExpression", r#"{"$regularExpression": {"pattern": "^a", "options": "i"}}"#),
    ("$symbol", r#"{"$symbol": "a"}"#),
    ("$timestamp", r#"{"$timestamp": {"t": 1700000000, "i": 1}}"#),
    ("$undefined", r#"{"$undefined": true}"#),
    ("$uuid", r#"{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#),
];

/// All keys of Extended JSON.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(key, _)| *key)
}

/// Whether an object is Extended JSON. `$date` and `$uuid` with an object of settings are generators.
pub(crate) fn is_constant(map: &Map<String, Value>) -> bool {
    let is_generator = |key: &str| match &map[key] {
        Value::Null => true,
        Value::Object(settings) => !settings.contains_key("$numberLong"),
        _ => false,
    };
    map.keys().any(|key| match key.as_str() {
        "$date" | "$uuid" => !is_generator(key),
        key => keys().any(|known| known == key),
    })
}

/// The type and the bytes of a constant.
pub(crate) fn constant(args: &Args<'_>) -> Result<Shape, Error> {
    if args.value().as_u64().is_some_and(|number| i64::try_from(number).is_err()) {
        return Err(args.expected(INT64_OR_WIDER));
    }
    let bytes = Bson::try_from(args.value().clone())
        .and_then(|bson| Document::from_iter([(String::new(), bson)]).to_vec());
    // A document of one field without a name: length, type, the name's zero, the value, the document's zero.
    match bytes.as_deref() {
        Ok([_, _, _, _, kind, 0, value @ .., 0]) => {
            Ok(Shape::Constant { kind: *kind, bytes: value.to_vec() })
        }
        _ => Err(args.expected(form(args.value()))),
    }
}

/// The remedy for a whole number that would become a double, and lose digits.
const INT64_OR_WIDER: &str = "a whole number up to 9223372036854775807, {$numberDecimal: '…'} to keep all digits, or \
                              {$numberDouble: '…'} for the nearest double";

fn form(value: &Value) -> &'static str {
    let key = |(key, _): &&(&str, &str)| value.get(key).is_some();
    FORMS.iter().find(key).map_or("a number that fits a double", |(_, form)| *form)
}
