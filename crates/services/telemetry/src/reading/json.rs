//! Parses a reading from JSON bytes without a tree in between, because this is the hot path of ingest.

use std::fmt;

use plimsoll_service::InvalidField;
use plimsoll_service::strict_json::duplicate_key;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::draft::{Draft, Wrong};
use super::scalar::{Name, Simple};
use super::{Limits, Reading};

/// A seed that parses readings. It returns an invalid reading as a value, so that parsing can continue after it. Errors are
/// invalid JSON and duplicate keys.
#[derive(Clone, Copy, Debug)]
pub struct Read<'l> {
    /// The service's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// The limits of accepted readings.
    pub limits: &'l Limits,
}

/// Bytes without a valid reading.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// Invalid JSON, or a duplicate key.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Valid JSON with an invalid field.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
}

impl Read<'_> {
    /// Parses one reading.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn bytes(self, json: &[u8]) -> Result<Reading, Unread> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let found = self.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found?)
    }
}

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = Result<Reading, InvalidField>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(Object(self))
    }
}

/// The outermost value, which must be an object.
struct Object<'l>(Read<'l>);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Result<Reading, InvalidField>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reading")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut draft = Draft::default();
        while let Some(field) = fields.next_key_seed(Name)? {
            let value = fields.next_value_seed(Simple)?;
            match draft.take(field, value, self.0.now_ms, self.0.limits) {
                Ok(()) => {}
                Err(Wrong::Duplicate(name)) => return Err(duplicate_key(&name)),
                Err(Wrong::Invalid(invalid)) => {
                    while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    return Ok(Err(invalid));
                }
            }
        }
        match draft.finish() {
            Ok(reading) => Ok(Ok(reading)),
            Err(Wrong::Duplicate(name)) => Err(duplicate_key(&name)),
            Err(Wrong::Invalid(invalid)) => Ok(Err(invalid)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Err(no_object()))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Err(no_object()))
    }
}

fn no_object() -> InvalidField {
    InvalidField::new("", "a reading is a JSON object: {\"sensorId\": …}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn read(json: &str) -> Result<Reading, Unread> {
        Reading::parse(json.as_bytes(), NOW, &Limits::default())
    }

    #[test]
    fn a_duplicate_key_is_refused_as_invalid_json() {
        let good = format!(r#""sensorId":"s","timestamp":{NOW},"eventId":"e","m":1,"n":2"#);
        assert!(read(&format!("{{{good}}}")).is_ok());
        for (again, name) in [
            (r#""sensorId":"s""#, "sensorId"),
            (r#""timestamp":1790000000000"#, "timestamp"),
            (r#""eventId":"other""#, "eventId"),
            (r#""m":1"#, "m"),
            (r#""\u006d":3"#, "m"),
        ] {
            let error = read(&format!("{{{good},{again}}}")).unwrap_err();
            assert!(matches!(&error, Unread::Json(error) if error.is_data()), "{error:?}");
            assert!(error.to_string().contains(&format!("duplicate key \"{name}\"")), "{error}");
        }
    }

    #[test]
    fn escaped_keys_and_names_are_decoded() {
        let json = format!(r#" {{"sensor\u0049d":"h\u00e9","timestamp":{NOW},"\u0061":1e0}} "#);
        let reading = read(&json).unwrap();
        assert_eq!((reading.sensor.as_str(), &reading.metrics[..]), ("hé", &[("a".to_owned(), 1.0)][..]));
    }

    #[test]
    fn invalid_json_and_invalid_fields_have_different_errors() {
        for json in ["", "{", "{} {}", "{\"a\":NaN}", "{\"a\":1e999}", "[1,]", "\u{feff}{}"] {
            assert!(matches!(read(json), Err(Unread::Json(_))), "{json}");
        }
        for json in
            ["{}", "[[{}]]", "7", "-7", "7.5", "true", "null", "\"x\"", "{\"a.b\":[{\"c\":[]}],\"d\":{}}"]
        {
            assert!(matches!(read(json), Err(Unread::Invalid(_))), "{json}");
        }
    }
}
