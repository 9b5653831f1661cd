//! Durations as people type them: `250ms`, `10s`, `1.5m`, `2h`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9)];

/// A length of time, in nanoseconds, typed with a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    ns: u64,
}

/// A duration that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration; write a number with its unit, for example 250ms, 10s, 1.5m or 2h")]
pub struct ParseError(String);

impl Span {
    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self { ns: seconds * 1_000_000_000 }
    }

    /// The length in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// The length in seconds.
    pub const fn as_secs(self) -> f64 {
        self.ns as f64 / 1e9
    }
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let fail = || ParseError(text.to_owned());
        let compact = text.trim();
        let digits = compact.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = &compact[digits.len()..];
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fail)?;
        let number: f64 = digits.trim().parse().map_err(|_| fail())?;
        let ns = number * scale;
        if !(0.0..=1e18).contains(&ns) {
            return Err(fail());
        }
        Ok(Self { ns: ns.round() as u64 })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.ns as f64;
        let (unit, scale) = UNITS.iter().rev().find(|(_, scale)| ns >= *scale).unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", ns / scale)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|m|h)\s*$",
            "description": "A number with its unit, for example 250ms, 10s, 1.5m or 2h."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_and_writes_with_its_unit() {
        for (text, ns) in [
            ("250ms", 250_000_000),
            ("10s", 10_000_000_000),
            ("1.5m", 90_000_000_000),
            ("2h", 7_200_000_000_000),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.as_ns(), ns);
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("0s".parse::<Span>().unwrap().to_string(), "0s");
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_an_example() {
        for text in ["10", "ten s", "-1s", "5 parsecs", "", "1e30h"] {
            assert!(text.parse::<Span>().unwrap_err().to_string().contains("for example 250ms"), "{text}");
        }
    }
}
