//! Converts JSON text to BSON bytes in one pass, without a tree.
//!
//! Integers become int32 if they fit, else int64; an integer of more than 64 bits is refused. Other numbers become doubles. An
//! object whose first name begins with `$` is extended JSON (`{"$date": …}`, `{"$oid": …}`) and becomes its BSON type.

use std::cell::Cell;
use std::fmt;

use bson::{Bson, Document};
use plimsoll_element::json::oversize_number;
use plimsoll_element::{append, kind};
use serde::de::{DeserializeSeed, Deserializer as _, Error, MapAccess, SeqAccess, Visitor};

/// Appends the document in `json`.
///
/// # Errors
/// If the JSON is invalid; `out` may have grown then.
pub fn append(json: &[u8], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let mut text = serde_json::Deserializer::from_slice(json);
    let mut kind = 0;
    let source = Source { json, is_checked: Cell::new(false) };
    text.deserialize_any(Value { source: &source, out, kind: &mut kind })?;
    text.end()?;
    if kind == kind::DOCUMENT { Ok(()) } else { Err(Error::custom("it is not an object")) }
}

/// The first number beyond int64.
const INT64_END: f64 = 9_223_372_036_854_775_808.0;

/// The error for a whole number at a byte of the text, counted from 1.
fn oversize<E: Error>(at: usize) -> E {
    E::custom(format!(
        "a whole number of more than 64 bits at byte {at}: write {{\"$numberDecimal\": \"…\"}} to keep all digits, or \
         {{\"$numberDouble\": \"…\"}} for the nearest double"
    ))
}

/// The whole text.
struct Source<'a> {
    json: &'a [u8],
    /// Whether no whole number in it has more than 64 bits. One scan serves all values.
    is_checked: Cell<bool>,
}

impl Source<'_> {
    /// The place of a whole number of more than 64 bits, counted from 1.
    fn oversize_number(&self) -> Option<usize> {
        if self.is_checked.get() {
            return None;
        }
        let at = oversize_number(self.json);
        self.is_checked.set(at.is_none());
        at
    }
}

/// Writes one value, and returns its type in `kind`.
struct Value<'a> {
    source: &'a Source<'a>,
    out: &'a mut Vec<u8>,
    kind: &'a mut u8,
}

impl Value<'_> {
    fn put(self, kind: u8, bytes: &[u8]) {
        *self.kind = kind;
        self.out.extend_from_slice(bytes);
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(kind::BOOLEAN, &[u8::from(value)]);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match i32::try_from(value) {
            Ok(small) => self.put(kind::INT32, &small.to_le_bytes()),
            Err(_) => self.put(kind::INT64, &value.to_le_bytes()),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(oversize(self.source.oversize_number().unwrap_or_default())),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        // A whole number of more than 64 bits comes as the nearest double. Only its text differs from that of a double.
        if value.abs() >= INT64_END
            && let Some(at) = self.source.oversize_number()
        {
            return Err(oversize(at));
        }
        self.put(kind::DOUBLE, &value.to_le_bytes());
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        *self.kind = kind::STRING;
        append::text(self.out, value.as_bytes());
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(kind::NULL, &[]);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        *self.kind = kind::ARRAY;
        let document = append::open(self.out);
        for index in 0.. {
            let at = self.out.len();
            append::item(self.out, 0, index);
            let mut kind = 0;
            if items
                .next_element_seed(Value { source: self.source, out: self.out, kind: &mut kind })?
                .is_none()
            {
                self.out.truncate(at);
                break;
            }
            self.out[at] = kind;
        }
        append::close(self.out, document);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        *self.kind = kind::DOCUMENT;
        let document = append::open(self.out);
        loop {
            let at = self.out.len();
            self.out.push(0);
            if fields.next_key_seed(Name(self.out))?.is_none() {
                self.out.truncate(at);
                break;
            }
            let is_first = at == document + 4;
            if is_first && self.out[at + 1] == b'$' {
                let name = String::from_utf8_lossy(&self.out[at + 1..self.out.len() - 1]).into_owned();
                self.out.truncate(document);
                return self.extended(name, fields);
            }
            let mut kind = 0;
            fields.next_value_seed(Value { source: self.source, out: self.out, kind: &mut kind })?;
            self.out[at] = kind;
        }
        append::close(self.out, document);
        Ok(())
    }
}

impl<'de> Value<'_> {
    /// Writes the value of an extended JSON object.
    fn extended<A: MapAccess<'de>>(self, first: String, mut fields: A) -> Result<(), A::Error> {
        let mut object = serde_json::Map::new();
        object.insert(first, fields.next_value()?);
        while let Some((name, value)) = fields.next_entry()? {
            object.insert(name, value);
        }
        let object = serde_json::Value::Object(object);
        if is_beyond_int64(&object)
            && let Some(at) = self.source.oversize_number()
        {
            return Err(oversize(at));
        }
        let value = Bson::try_from(object).map_err(A::Error::custom)?;
        let mut holder = Document::new();
        holder.insert("", value);
        let bytes = holder.to_vec().map_err(A::Error::custom)?;
        // Skip the length, the type and the empty name; omit the final NUL.
        self.put(bytes[4], &bytes[6..bytes.len() - 1]);
        Ok(())
    }
}

/// Whether a value holds a number beyond int64.
fn is_beyond_int64(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() >= INT64_END),
        serde_json::Value::Array(items) => items.iter().any(is_beyond_int64),
        serde_json::Value::Object(fields) => fields.values().any(is_beyond_int64),
        _ => false,
    }
}

/// Writes the name of a field, with its final NUL.
struct Name<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        if name.contains('\0') {
            return Err(E::custom("a name holds a NUL"));
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn read(json: &str) -> Result<Document, String> {
        let mut out = Vec::new();
        append(json.as_bytes(), &mut out).map_err(|error| error.to_string())?;
        plimsoll_element::check(&out, 100).map_err(|error| error.to_string())?;
        Document::from_reader(out.as_slice()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_json_value_becomes_its_bson_value() {
        let json = r#"{"a": 1, "b": -5000000000, "c": 1.5, "d": "te\nxt", "e": null, "f": true, "g": [], "h": {},
            "i": [1, [2, {"x": "y"}], "z"], "j": {"k": {"l": 1e3}}}"#;
        let expected = doc! {
            "a": 1, "b": -5_000_000_000_i64, "c": 1.5, "d": "te\nxt", "e": Bson::Null, "f": true, "g": [], "h": {},
            "i": [1, [2, {"x": "y"}], "z"], "j": {"k": {"l": 1000.0}},
        };
        assert_eq!(read(json).unwrap(), expected);
    }

    #[test]
    fn extended_json_becomes_its_bson_type() {
        let json = r#"{"_id": {"$oid": "691f00000000000000000001"}, "at": [{"$date": "1970-01-01T00:00:01Z"}],
            "n": {"$numberLong": "7"}, "odd": {"$other": 1, "x": 2}}"#;
        let expected = doc! {
            "_id": bson::oid::ObjectId::parse_str("691f00000000000000000001").unwrap(),
            "at": [bson::DateTime::from_millis(1000)], "n": 7_i64, "odd": {"$other": 1, "x": 2},
        };
        assert_eq!(read(json).unwrap(), expected);
    }

    #[test]
    fn a_text_that_is_not_an_object_is_refused() {
        for json in [
            "",
            "1",
            "[]",
            "\"x\"",
            "{",
            "{} {}",
            "{\"a\": 18446744073709551615}",
            "{\"a\": 18446744073709551616}",
            "{\"a\": [-9223372036854775809]}",
            "{\"a\": {\"$other\": 18446744073709551616}}",
            "{\"a\": {\"$other\": [9223372036854775808]}}",
            "{\"a\\u0000\": 1}",
            "null",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(read(r#"{"$oid": "691f00000000000000000001"}"#).is_err());
    }

    #[test]
    fn a_large_number_with_a_fraction_or_an_exponent_is_a_double() {
        let json =
            r#"{"a": 9223372036854775808.0, "b": 1.7976931348623157e308, "c": "18446744073709551616"}"#;
        let expected = doc! {"a": 9_223_372_036_854_775_808.0, "b": f64::MAX, "c": "18446744073709551616"};
        assert_eq!(read(json).unwrap(), expected);
    }
}
