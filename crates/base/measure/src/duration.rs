//! Reads and writes durations as people type them: `250ms`, `10s`, `1.5m`, `2h`, `1h2m3.5s`.

use std::fmt;
use std::str::FromStr;

/// Units and their lengths in nanoseconds, from small to large. If a unit has two names, the later name is
/// written.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9)];
/// The longest duration, in nanoseconds: about thirty years.
const NS_MAX: f64 = 1e18;

/// A length of time, in nanoseconds, typed with a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    ns: u64,
}

/// An invalid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{0}`: write a number with its unit, for example 250ms, 10s, 1.5m or 2h")]
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
        let read = || single(text).or_else(|| compound(text));
        let ns = read().filter(|ns| (0.0..=NS_MAX).contains(ns));
        ns.map(|ns| Self { ns: ns.round() as u64 }).ok_or_else(|| ParseError(text.to_owned()))
    }
}

/// One number with its unit, in nanoseconds.
fn single(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(char::is_alphabetic);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    digits.trim().parse::<f64>().ok().map(|number| number * scale)
}

/// Several numbers with units in a row.
fn compound(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut ns = 0.0;
    while !rest.is_empty() {
        let unit = rest.find(char::is_alphabetic)?;
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let next = rest[unit..].find(is_number).map_or(rest.len(), |at| unit + at);
        ns += single(&rest[..next]).filter(|part| *part >= 0.0)?;
        rest = &rest[next..];
    }
    (!text.trim().is_empty()).then_some(ns)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.ns as f64;
        let (unit, scale) = UNITS.iter().rev().find(|(_, scale)| ns >= *scale).unwrap_or(&UNITS[4]);
        write!(f, "{}{unit}", ns / scale)
    }
}

crate::macros::as_text!(
    Span,
    "Duration",
    r"^\s*([0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|m|h))+\s*$",
    "A number with its unit, for example 250ms, 10s, 1.5m or 2h, or several: 1h2m3.5s."
);

/// For `#[serde(with)]`: a duration with its unit, or, as in k6, a number of milliseconds, with quotes or without.
pub mod milliseconds {
    use std::fmt;

    use serde::de::{self, Deserializer, Visitor};

    use super::Span;

    /// Reads a duration or a number of milliseconds.
    ///
    /// # Errors
    /// When it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_any(Either)
    }

    struct Either;

    impl Visitor<'_> for Either {
        type Value = Span;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as 1m30s, or a number of milliseconds")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
            text.trim()
                .parse::<f64>()
                .map_or_else(|_| text.parse().map_err(E::custom), |ms| self.visit_f64(ms))
        }

        fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Span, E> {
            self.visit_f64(ms as f64)
        }

        fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Span, E> {
            self.visit_f64(ms as f64)
        }

        fn visit_f64<E: de::Error>(self, ms: f64) -> Result<Span, E> {
            format!("{ms}ms").parse().map_err(E::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_and_written_with_its_unit() {
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
    fn a_bare_number_counts_milliseconds_only_in_the_form_of_k6() {
        for json in ["1500", "1.5e3", "\"1500\"", "\"1.5s\"", "\"1s500ms\""] {
            let span = milliseconds::deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap();
            assert_eq!(span.as_ns(), 1_500_000_000, "{json}");
        }
        assert!(milliseconds::deserialize(&mut serde_json::Deserializer::from_str("-1")).is_err());
        assert!(serde_json::from_str::<Span>("1500").is_err());
    }

    #[test]
    fn several_numbers_with_their_units_add_up() {
        for (text, ns) in [
            ("1h2m3.5s", 3_723_500_000_000),
            ("1m30s", 90_000_000_000),
            ("1s500ms", 1_500_000_000),
            ("1ms1µs1ns", 1_001_001),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().as_ns(), ns, "{text}");
        }
        assert_eq!("7us".parse::<Span>().unwrap().to_string(), "7us");
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_an_example() {
        for text in ["10", "ten s", "-1s", "5 parsecs", "", "1e30h", "1m-30s", "1h30", "s"] {
            assert!(text.parse::<Span>().unwrap_err().to_string().contains("for example 250ms"), "{text}");
        }
    }
}
