//! Holds a typed template and documents its grammar.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A document as typed: a JSON object whose values are constants, nested documents, arrays, or generators.
///
/// Constants are plain JSON or MongoDB Extended JSON v2 (`{"$numberLong": "5"}`, `{"$date": "2026-01-31T00:00:00Z"}`,
/// ...). A whole number is an int32 if it fits, else an int64. Generators are objects with one key:
///
/// - `$sequence: {start: 0, step: 1, type: long}`: start + number × step (`int`, `long` or `double`; integers wrap).
/// - `$number: {}`: the document's number (int64).
/// - `$int`, `$long`, `$double: {min, max, distribution}`: a random number from min to max, both included.
/// - `$decimal: {min, max, places: 2, distribution}`: a decimal128 with that many places.
/// - `$bool: {probability: 0.5}`: true with that probability.
/// - `$pick: [a, b]` or `{from: [a, b], weights: [9, 1]}` or `{from: [a, b], distribution}`: one of these constants.
/// - `$family: {prefix: "sensor-", count: 10000, start: 0, digits: 4, distribution}`: `sensor-0000` ...
///   `sensor-9999`. `digits` is the least number of digits, by default as many as the largest number needs.
/// - `$date: {start: "-1h", step: "1s", within: "10m"}`: start + number × step + a random part of `within`. `start` is
///   an offset from the run's reference time, or a date (`"2026-01-31T00:00:00Z"`).
/// - `$text: {bytes: 120}` or `{min, max}`: lower-case ASCII letters and spaces, exactly that many bytes.
/// - `$bytes: {size: 64}` or `{min, max}`: random binary of subtype 0.
/// - `$pad: {to: 665}`: text that brings the whole document to exactly that many bytes (top level, at most one).
/// - `$array: {of: <value>, length: 3}` or `length: {min, max}`: an array of generated values.
/// - `$optional: {probability: 0.3, value: <value>}`: the field is present with that probability.
/// - `$same: "field"`: the value of an earlier field, innermost document first; a dotted path selects inside it. The
///   copy of an optional field is absent when the field is.
/// - `$object_id: {}`, `$uuid: {}`: random; the UUID is of version 4.
///
/// A `distribution` is `uniform` (the default), `{zipf: {exponent: 0.99, scrambled: false}}` (the smallest value is the most
/// frequent, unless a hash scatters the values, as in YCSB; whole numbers only), `{normal: {mean, deviation}}`, or
/// `{exponential: {mean}}`, whose mean is the mean distance from min. The last two are clamped to min and max.
///
/// A random value depends on the seed, the document's number and the field's path: adding a field leaves the other
/// fields as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Template(Map<String, Value>);

impl Template {
    /// The fields in the order in which they were typed.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl From<Map<String, Value>> for Template {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_the_keys() {
        let text = r#"{"z":1,"a":{"y":2,"b":3},"m":[]}"#;
        let template: Template = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&template).unwrap(), text);
    }

    #[test]
    fn the_schema_is_an_object() {
        let schema = schemars::schema_for!(Template);
        assert_eq!(schema.get("type"), Some(&Value::from("object")));
    }

    #[test]
    fn anything_but_an_object_is_refused() {
        assert!(serde_json::from_str::<Template>("[1]").is_err());
    }
}
