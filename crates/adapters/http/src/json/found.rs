//! Compares a value in the JSON of an answer with an expected value.

use serde_json::{Number, Value};

/// The bytes of a value in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a>(pub(crate) &'a [u8]);

impl<'a> Found<'a> {
    /// The number, if the value is a number.
    pub(crate) fn number(self) -> Option<f64> {
        let is_number = self.0.first().is_some_and(|first| *first == b'-' || first.is_ascii_digit());
        std::str::from_utf8(self.0).ok().filter(|_| is_number)?.parse().ok()
    }

    /// The text, if the value is a text.
    pub(crate) fn text(self) -> Option<String> {
        serde_json::from_slice(self.0).ok()
    }

    /// Whether the value equals `expected`. Allocates nothing for texts without escapes, numbers, booleans and null.
    pub(crate) fn is(self, expected: &Value) -> bool {
        match (self.0, expected) {
            ([b'"', inner @ .., b'"'], Value::String(expected)) if !inner.contains(&b'\\') => {
                inner == expected.as_bytes()
            }
            (_, Value::Null) => self.0 == b"null",
            (_, Value::Bool(expected)) => self.0 == if *expected { &b"true"[..] } else { b"false" },
            (_, Value::Number(expected)) => self.is_number(expected),
            _ => serde_json::from_slice::<Value>(self.0).is_ok_and(|value| value == *expected),
        }
    }

    /// Compares integers exactly and other numbers as doubles.
    fn is_number(self, expected: &Number) -> bool {
        let text = std::str::from_utf8(self.0).unwrap_or_default();
        match (text.parse::<i64>(), expected.as_i64()) {
            (Ok(number), Some(expected)) => number == expected,
            _ => self.number().is_some_and(|number| Some(number) == expected.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_compared_by_meaning() {
        for (raw, expected, same) in [
            ("1", json!(1), true),
            ("1.0", json!(1), true),
            ("1", json!(2), false),
            ("9007199254740993", json!(9_007_199_254_740_992_i64), false),
            ("\"a\"", json!("a"), true),
            (r#""\u0061""#, json!("a"), true),
            ("\"1\"", json!(1), false),
            ("[1, {\"b\": 2}]", json!([1, {"b": 2}]), true),
            ("false", json!(true), false),
        ] {
            assert_eq!(Found(raw.as_bytes()).is(&expected), same, "{raw} {expected}");
        }
    }
}
