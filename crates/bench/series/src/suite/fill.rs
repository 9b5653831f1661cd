//! Parses a topic's fill: `2_000_000 of 64B`, `5_000 of 14 words`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, ensure};
use plimsoll_measure::size::Bytes;
use serde::{Deserialize, Serialize};

/// The largest fill of a topic, in bytes of payloads.
const BYTES_MAX: u64 = 1 << 40;

/// A number of generated events of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fill {
    /// The number of events.
    pub events: u64,
    /// The size of each event.
    pub each: Each,
}

/// The size of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// A number of bytes.
    Bytes(Bytes),
    /// A text with this number of words; each is one token of the usual tokenizers.
    Words(u32),
}

impl FromStr for Fill {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let shape = || format!("`{text}` is not a fill; write 2_000_000 of 64B, or 5_000 of 14 words");
        let (events, each) = text.split_once(" of ").with_context(shape)?;
        let number = |text: &str| text.trim().replace('_', "").parse::<u64>().with_context(shape);
        let each = match each.trim().strip_suffix("words") {
            Some(words) => Each::Words(u32::try_from(number(words)?).with_context(shape)?),
            None => Each::Bytes(each.trim().parse()?),
        };
        let fill = Self { events: number(events)?, each };
        ensure!(fill.events > 0 && each != Each::Words(0), "`{text}`: give numbers over 0");
        let bytes = fill.events.saturating_mul(fill.bytes_each());
        ensure!(bytes <= BYTES_MAX, "`{text}`: {bytes} bytes, but the limit of a fill is {BYTES_MAX}");
        Ok(fill)
    }
}

impl Fill {
    const fn bytes_each(self) -> u64 {
        match self.each {
            Each::Bytes(bytes) => bytes.get(),
            Each::Words(words) => words as u64 * 8,
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.each {
            Each::Bytes(bytes) => write!(f, "{} of {bytes}", self.events),
            Each::Words(words) => write!(f, "{} of {words} words", self.events),
        }
    }
}

impl TryFrom<String> for Fill {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: anyhow::Error| format!("{error:#}"))
    }
}

impl From<Fill> for String {
    fn from(fill: Fill) -> Self {
        fill.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_parsed_and_printed() {
        for (text, said) in [
            ("2_000_000 of 64B", "2000000 of 64B"),
            ("7 of 1KB", "7 of 1KB"),
            (" 5_000  of  14 words ", "5000 of 14 words"),
        ] {
            let fill: Fill = text.parse().unwrap();
            assert_eq!(fill.to_string(), said);
            assert_eq!(said.parse::<Fill>().unwrap(), fill);
        }
    }

    #[test]
    fn an_invalid_fill_is_refused_with_an_example() {
        for (text, part) in [
            ("many", "write 2_000_000 of 64B"),
            ("many of 64B", "write 2_000_000 of 64B"),
            ("5 of much", "invalid amount of bytes"),
            ("0 of 64B", "numbers over 0"),
            ("5 of 0 words", "numbers over 0"),
            ("5 of x words", "or 5_000 of 14 words"),
            ("1_000_000_000_000 of 1KB", "the limit of a fill"),
        ] {
            let message = format!("{:#}", text.parse::<Fill>().unwrap_err());
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
