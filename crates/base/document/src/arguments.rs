//! Reads the settings of a generator, with errors that name their path.

use serde_json::{Map, Value};

use crate::error::{Error, suggestion};

/// The maximum length of a wrong value in a message, in characters.
const SHOWN_MAX: usize = 60;

/// A value of the template, and its path.
#[derive(Clone, Debug)]
pub(crate) struct Args<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Args<'a> {
    /// The value at a path.
    pub(crate) fn new(path: String, value: &'a Value) -> Self {
        Self { path, value }
    }

    /// The path of the value.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The error for an unexpected value.
    pub(crate) fn expected(&self, expected: &str) -> Error {
        Error::Expected { path: self.path.clone(), expected: expected.to_owned(), got: shown(self.value) }
    }

    /// An object of these settings; null counts as an empty object.
    pub(crate) fn fields(&self, known: &[&str]) -> Result<Fields<'a>, Error> {
        self.fields_or(known, &format!("an object of {}", braced(known)))
    }

    /// As [`Args::fields`], with the caller's description of the expected value.
    pub(crate) fn fields_or(&self, known: &[&str], expected: &str) -> Result<Fields<'a>, Error> {
        let map = match self.value {
            Value::Null => None,
            Value::Object(map) => Some(map),
            _ => return Err(self.expected(expected)),
        };
        match map.and_then(|map| map.keys().find(|key| !known.contains(&key.as_str()))) {
            Some(name) => Err(Error::UnknownSetting {
                path: self.path.clone(),
                name: name.clone(),
                remedy: suggestion(name, known),
            }),
            None => Ok(Fields { args: self.clone(), map }),
        }
    }

    /// A whole number, also in the form `1e6`.
    pub(crate) fn whole_within(&self, min: i64, max: i64, expected: &str) -> Result<i64, Error> {
        let integral = |x: f64| (x.fract() == 0.0 && x.abs() <= 9e15).then_some(x as i64);
        let whole = self.value.as_i64().or_else(|| self.value.as_f64().and_then(integral));
        whole.filter(|whole| (min..=max).contains(whole)).ok_or_else(|| self.expected(expected))
    }

    /// A whole number within the bounds of a type. The error for a larger number names the type that holds
    /// it.
    pub(crate) fn whole_of(&self, (min, max): (i64, i64), wider: Option<&str>) -> Result<i64, Error> {
        let wider = wider.filter(|_| self.whole_within(i64::MIN, i64::MAX, "").is_ok());
        let remedy = wider.map(|wider| format!(", or {wider} for larger numbers")).unwrap_or_default();
        self.whole_within(min, max, &format!("a whole number from {min} to {max}{remedy}"))
    }

    /// A finite number.
    pub(crate) fn real(&self) -> Result<f64, Error> {
        self.real_within(f64::MIN, f64::MAX, "a number")
    }

    /// A number from `min` to `max`.
    pub(crate) fn real_within(&self, min: f64, max: f64, expected: &str) -> Result<f64, Error> {
        let real = self.value.as_f64().filter(|real| (min..=max).contains(real));
        real.ok_or_else(|| self.expected(expected))
    }

    /// A probability.
    pub(crate) fn probability(&self) -> Result<f64, Error> {
        self.real_within(0.0, 1.0, "a probability from 0 to 1")
    }

    /// True or false.
    pub(crate) fn truth(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// A text.
    pub(crate) fn text(&self, expected: &str) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.expected(expected))
    }

    /// A list.
    pub(crate) fn list(&self, expected: &str) -> Result<&'a [Value], Error> {
        self.value.as_array().map(Vec::as_slice).ok_or_else(|| self.expected(expected))
    }
}

/// An object whose keys are all known.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    args: Args<'a>,
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    /// The setting, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<Args<'a>> {
        let value = self.map?.get(name)?;
        Some(Args::new(format!("{}.{name}", self.args.path), value))
    }

    /// The setting, or an error with the fix.
    pub(crate) fn need(&self, name: &str, remedy: &str) -> Result<Args<'a>, Error> {
        self.get(name).ok_or_else(|| Error::Missing {
            path: self.args.path.clone(),
            name: name.to_owned(),
            remedy: remedy.to_owned(),
        })
    }

    /// The setting, if exactly one is given.
    pub(crate) fn only(&self) -> Option<(&'a str, Args<'a>)> {
        let (name, _) = self.map?.iter().next().filter(|_| self.map.is_some_and(|map| map.len() == 1))?;
        Some((name, self.get(name)?))
    }

    /// The error for a wrong setting, or for the whole object if the setting is missing.
    pub(crate) fn expected_at(&self, name: &str, expected: &str) -> Error {
        self.get(name).unwrap_or_else(|| self.args.clone()).expected(expected)
    }
}

fn braced(known: &[&str]) -> String {
    if known.is_empty() { "no settings: {}".to_owned() } else { format!("{{{}}}", known.join(", ")) }
}

/// The value as JSON, cut when it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_may_be_written_as_reals() {
        for (value, want) in [(json!(5), Some(5)), (json!(1e6), Some(1_000_000)), (json!(1.5), None)] {
            assert_eq!(Args::new(String::new(), &value).whole_within(0, i64::MAX, "").ok(), want);
        }
    }

    #[test]
    fn long_values_are_cut() {
        let value = json!("é".repeat(100));
        let message = Args::new("document.x".to_owned(), &value).expected("a number").to_string();
        assert!(message.starts_with("document.x: expected a number, got \"éé"), "{message}");
        assert!(message.ends_with("...") && message.chars().count() < 110);
    }
}
