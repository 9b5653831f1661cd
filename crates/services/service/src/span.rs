//! Parses and prints durations of settings and queries: `250ms`, `30s`, `15m`, `1h`, `7d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The units, the longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A duration in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

/// A text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a duration: write a whole number and a unit, as in 250ms, 30s, 15m, 1h or 7d")]
pub struct InvalidSpan;

impl Span {
    /// A span of `millis` milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A span of `seconds` seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The whole milliseconds of a duration.
    pub const fn of(duration: Duration) -> Self {
        Self::millis(duration.as_millis() as u64)
    }

    /// The span as a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The span in milliseconds.
    pub fn as_ms(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(InvalidSpan)?;
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| InvalidSpan)?;
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(InvalidSpan)?;
        number.checked_mul(*millis).map(Self::millis).ok_or(InvalidSpan)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let whole = UNITS.iter().find(|(_, unit)| millis != 0 && millis.is_multiple_of(*unit));
        let (name, unit) = whole.unwrap_or(&("ms", 1));
        write!(f, "{}{name}", millis / unit)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Parses the text form.
struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, as 250ms, 30s or 1h")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map_err(|error| E::custom(format!("`{text}` {error}")))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_as_it_is_written() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("15m", 900_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0ms", 0),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span, span.to_string().as_str()), (Span::millis(millis), text));
        }
        assert_eq!("60s".parse::<Span>().unwrap().to_string(), "1m");
    }

    #[test]
    fn an_invalid_span_is_refused() {
        for text in [
            "",
            "5",
            "h",
            "1.5h",
            "-1s",
            "1 h",
            "1w",
            "1H",
            "99999999999999999999s",
            "9999999999999999999d",
            "$1s",
        ] {
            assert_eq!(text.parse::<Span>(), Err(InvalidSpan), "{text}");
        }
    }
}
