//! JSON in which no object has a key twice: which of the values is meant could not be known, and whoever looks at a request
//! before us may take the other one.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::reading::twice;

/// The value that these bytes hold, and nothing else.
///
/// # Errors
/// When they are no JSON; of the category `Data` when an object has a key twice.
pub fn value(json: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(twice(&key));
            }
            object.insert(key, fields.next_value_seed(Strict)?);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(Strict)? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        // JSON has finite numbers only.
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_everything_once_is_read_as_it_is() {
        for json in ["{}", "[]", r#"{"a":{"b":[1,-2,0.5,18446744073709551615,true,null,"x\"y"]},"c":""}"#] {
            assert_eq!(
                value(json.as_bytes()).unwrap(),
                serde_json::from_str::<Value>(json).unwrap(),
                "{json}"
            );
        }
    }

    #[test]
    fn a_key_that_stands_there_twice_is_refused_however_deep() {
        for json in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"\u0061":3}}]"#, r#"{"a":{"a":1},"a":{}}"#] {
            let error = value(json.as_bytes()).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("\"a\" stands there twice"), "{error}");
        }
    }

    #[test]
    fn what_is_no_json_or_too_deep_is_refused() {
        for json in ["", "{", "{} {}", "NaN", "1e999", &"[".repeat(10_000), &"[".repeat(200), "\u{feff}{}"] {
            assert!(value(json.as_bytes()).is_err(), "{json}");
        }
        assert!(value(b"\"\xff\"").is_err());
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(value(deep.as_bytes()).is_err());
    }
}
