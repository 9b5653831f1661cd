//! Converts any JSON into BSON, and BSON into JSON.

use bson::{Bson, Document};
use serde_json::{Map, Number, Value};

use crate::moment;
use crate::refusal::shortened;

/// The deepest nesting of an object.
const DEPTH_MAX: u32 = 20;
/// The longest name of a field of an object, in bytes.
const NAME_BYTES_MAX: usize = 1_024;
/// Doubles below this are shown as whole numbers if they are: JavaScript writes sizes as doubles.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Converts any JSON. Names that the database gives a meaning are refused.
///
/// # Errors
/// A name begins with `$`, or the value is too deep.
pub(super) fn free(name: &str, value: &Value, depth: u32) -> Result<Bson, String> {
    if depth > DEPTH_MAX {
        return Err(format!("{name} must be nested at most {DEPTH_MAX} levels deep"));
    }
    Ok(match value {
        Value::Null => Bson::Null,
        Value::Bool(truth) => Bson::Boolean(*truth),
        Value::Number(number) => self::number(number),
        Value::String(text) => Bson::String(text.clone()),
        Value::Array(items) => {
            Bson::Array(items.iter().map(|item| free(name, item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let mut document = Document::new();
            for (field, value) in fields {
                document.insert(named(name, field)?, free(name, value, depth + 1)?);
            }
            Bson::Document(document)
        }
    })
}

fn named<'a>(name: &str, field: &'a str) -> Result<&'a str, String> {
    let valid = field.len() <= NAME_BYTES_MAX && !field.starts_with('$') && !field.contains('\0');
    let fault = || format!("property {name}.{} should not exist", shortened(field));
    valid.then_some(field).ok_or_else(fault)
}

/// Converts BSON into JSON: dates as text, identifiers as hex.
pub fn shown(value: &Bson) -> Value {
    match value {
        Bson::DateTime(date) => moment::text(*date).into(),
        Bson::ObjectId(id) => id.to_hex().into(),
        Bson::Int32(number) => (*number).into(),
        Bson::Int64(number) => (*number).into(),
        Bson::Double(number) => double(*number),
        Bson::String(text) => text.as_str().into(),
        Bson::Boolean(truth) => (*truth).into(),
        Bson::Null | Bson::Undefined => Value::Null,
        Bson::Array(items) => items.iter().map(shown).collect(),
        Bson::Document(fields) => object(fields).into(),
        other => other.to_string().into(),
    }
}

/// Converts a document into a JSON object.
pub fn object(document: &Document) -> Map<String, Value> {
    document.iter().map(|(name, value)| (name.clone(), shown(value))).collect()
}

fn double(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A number of 64 bits, or a double.
pub(super) fn number(number: &Number) -> Bson {
    number.as_i64().map_or_else(|| Bson::Double(number.as_f64().unwrap_or(f64::NAN)), Bson::Int64)
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, doc};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_shown_as_scicat_shows_it() {
        let document = doc! {
            "at": DateTime::from_millis(1), "n": 5.0, "half": 0.5, "big": i64::MAX, "none": Bson::Null,
            "nan": f64::NAN, "list": [1, {"a": true}],
        };
        let shown = json!({
            "at": "1970-01-01T00:00:00.001Z", "n": 5, "half": 0.5, "big": i64::MAX, "none": null,
            "nan": null, "list": [1, {"a": true}],
        });
        assert_eq!(Value::from(object(&document)), shown);
    }
}
