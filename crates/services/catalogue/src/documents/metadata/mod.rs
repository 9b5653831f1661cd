//! Stores scientific metadata: encodes keys, and adds values in SI units.

pub mod key;
pub mod units;

use bson::{Bson, Document};
use serde_json::{Map, Value};

use super::json;

/// The maximum number of keys of one object.
const KEYS_MAX: usize = 20_000;
/// The longest key in its stored form, in bytes.
const KEY_BYTES_MAX: usize = 1_024;
/// The deepest nesting.
const DEPTH_MAX: u32 = 20;

/// The stored form of metadata.
///
/// # Errors
/// It has too many keys, a key is too long or empty, or it is nested too deeply.
pub fn store(metadata: &Map<String, Value>) -> Result<Document, String> {
    object(metadata, 0)
}

fn object(fields: &Map<String, Value>, depth: u32) -> Result<Document, String> {
    if depth > DEPTH_MAX {
        return Err(format!("scientificMetadata must be nested at most {DEPTH_MAX} levels deep"));
    }
    if fields.len() > KEYS_MAX {
        return Err(format!("scientificMetadata must have at most {KEYS_MAX} keys"));
    }
    let si = si(fields);
    let kept =
        fields.iter().filter(|(name, _)| si.is_none() || !["valueSI", "unitSI"].contains(&name.as_str()));
    let mut document = Document::new();
    for (name, value) in kept {
        document.insert(encoded(name)?, stored(value, depth)?);
    }
    if let Some(si) = si {
        document.insert("valueSI", si.value);
        document.insert("unitSI", si.unit);
    }
    Ok(document)
}

fn encoded(name: &str) -> Result<String, String> {
    let key = key::encode(name);
    let valid = !key.is_empty() && key.len() <= KEY_BYTES_MAX;
    valid
        .then_some(key)
        .ok_or_else(|| format!("a key of scientificMetadata must have 1 to {KEY_BYTES_MAX} bytes"))
}

fn stored(value: &Value, depth: u32) -> Result<Bson, String> {
    match value {
        Value::Object(fields) => object(fields, depth + 1).map(Bson::Document),
        Value::Array(items) if depth < DEPTH_MAX => {
            items.iter().map(|item| stored(item, depth + 1)).collect::<Result<_, _>>().map(Bson::Array)
        }
        other => json::free("scientificMetadata", other, depth),
    }
}

/// The SI value of an entry with a number and a unit. A value with an unknown unit counts in that unit.
fn si(entry: &Map<String, Value>) -> Option<units::Si> {
    let value = entry.get("value")?.as_f64()?;
    let unit = entry.get("unit")?.as_str().filter(|unit| !unit.is_empty())?;
    Some(units::to_si(value, unit).unwrap_or_else(|| units::Si { value, unit: unit.to_owned() }))
}

/// The entries of metadata that have a value without a unit, or a unit without a value.
pub fn incomplete(metadata: &Map<String, Value>) -> Vec<&str> {
    let is_half = |entry: &Value| {
        entry.as_object().is_some_and(|entry| entry.contains_key("value") != entry.contains_key("unit"))
    };
    metadata.iter().filter(|(_, entry)| is_half(entry)).map(|(name, _)| name.as_str()).collect()
}

/// The metadata of a stored document.
pub fn show(stored: &Document) -> Map<String, Value> {
    stored.iter().map(|(name, value)| (key::decode(name), shown(value))).collect()
}

fn shown(value: &Bson) -> Value {
    match value {
        Bson::Document(fields) => show(fields).into(),
        Bson::Array(items) => items.iter().map(shown).collect(),
        other => json::shown(other),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use serde_json::json;

    use super::*;

    fn stored(json: Value) -> Result<Document, String> {
        store(json.as_object().unwrap())
    }

    #[test]
    fn an_entry_with_a_number_and_a_unit_gets_its_si_value() {
        let metadata = json!({
            "length": {"value": 5, "unit": "mm", "valueSI": 99, "unitSI": "forged"},
            "field_0": {"value": "Sample data 0", "unit": "unit"},
            "hits": {"value": 3, "unit": "counts"},
            "note": {"value": 3, "unit": ""},
            "free": ["a", {"b.c": 1}],
        });
        let expected = doc! {
            "length": {"value": 5_i64, "unit": "mm", "valueSI": 0.005, "unitSI": "m"},
            "field_0": {"value": "Sample data 0", "unit": "unit"},
            "hits": {"value": 3_i64, "unit": "counts", "valueSI": 3.0, "unitSI": "counts"},
            "note": {"value": 3_i64, "unit": ""},
            "free": ["a", {"b%2Ec": 1_i64}],
        };
        assert_eq!(stored(metadata), Ok(expected));
    }

    #[test]
    fn metadata_is_shown_with_its_keys() {
        let metadata = json!({"a.b": {"$c": 1, "list": [{"d e": null}]}});
        let shown = show(&stored(metadata.clone()).unwrap());
        assert_eq!(Value::from(shown), metadata);
    }

    #[test]
    fn metadata_has_bounds() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        let wide = (0..=KEYS_MAX).map(|n| (n.to_string(), json!(1))).collect::<Map<_, _>>();
        let lists = (0..100).fold(json!(1), |inner, _| json!([inner]));
        for metadata in [
            json!({"a": deep}),
            wide.into(),
            json!({"": 1}),
            json!({"é".repeat(500): 1}),
            json!({"a": lists}),
        ] {
            assert!(stored(metadata).is_err());
        }
    }

    #[test]
    fn half_an_entry_is_found() {
        let metadata = json!({"a": {"value": 1}, "b": {"unit": "m"}, "c": {"value": 1, "unit": "m"}, "d": 1});
        assert_eq!(incomplete(metadata.as_object().unwrap()), ["a", "b"]);
    }
}
