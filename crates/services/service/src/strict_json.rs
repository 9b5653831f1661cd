//! Parses JSON and refuses duplicate keys: a proxy in front of the service could use the other value.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses `json` as one value.
///
/// # Errors
/// The bytes are not JSON; the category is `Data` for a duplicate key.
pub fn parse(json: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Strict(&Cell::new(0)).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The error of a duplicate key.
pub fn duplicate_key<E: Error>(key: &str) -> E {
    const SHOWN: usize = 64;
    let key: String = key.chars().take(SHOWN).collect();
    E::custom(format_args!("duplicate key {key:?}: remove one"))
}

/// The largest number of values in a text. Each takes 32 bytes of memory or more, but may have only one byte
/// of text.
const VALUES_MAX: u32 = 2_000_000;

/// Reads a value, and counts all values.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<u32>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.set(self.0.get().saturating_add(1));
        if self.0.get() > VALUES_MAX {
            return Err(D::Error::custom(format_args!("more than {VALUES_MAX} values: send fewer at once")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(duplicate_key(&key));
            }
            object.insert(key, fields.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
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
        // JSON has only finite numbers.
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
    fn json_without_duplicate_keys_is_parsed_as_by_serde_json() {
        for json in ["{}", "[]", r#"{"a":{"b":[1,-2,0.5,18446744073709551615,true,null,"x\"y"]},"c":""}"#] {
            assert_eq!(
                parse(json.as_bytes()).unwrap(),
                serde_json::from_str::<Value>(json).unwrap(),
                "{json}"
            );
        }
    }

    #[test]
    fn a_duplicate_key_is_refused_at_any_depth() {
        for json in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"\u0061":3}}]"#, r#"{"a":{"a":1},"a":{}}"#] {
            let error = parse(json.as_bytes()).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("duplicate key \"a\""), "{error}");
        }
    }

    #[test]
    fn invalid_or_too_deep_json_is_refused() {
        for json in ["", "{", "{} {}", "NaN", "1e999", &"[".repeat(10_000), &"[".repeat(200), "\u{feff}{}"] {
            assert!(parse(json.as_bytes()).is_err(), "{json}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(parse(deep.as_bytes()).is_err());
    }
}
