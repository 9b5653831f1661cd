//! Reads and writes amounts of bytes as people type them: `512MB`, `4GB`, `1.5GiB`.

use std::fmt;
use std::str::FromStr;

/// Units and their lengths in bytes, from small to large.
const UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
    ("TiB", 1_099_511_627_776.0),
];

/// The largest amount.
const BYTES_MAX: f64 = 1e18;

/// An amount of bytes, typed with a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes {
    bytes: u64,
}

/// An invalid amount of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid amount of bytes `{0}`: write a number with its unit, for example 512MB, 4GB or 1.5GiB")]
pub struct ParseError(String);

impl Bytes {
    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes }
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.bytes
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let read = || {
            let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let (_, scale) = UNITS.iter().find(|(name, _)| *name == &text.trim()[digits.len()..])?;
            let bytes = digits.trim().parse::<f64>().ok()? * scale;
            (0.0..=BYTES_MAX).contains(&bytes).then_some(Self { bytes: bytes.round() as u64 })
        };
        read().ok_or_else(|| ParseError(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    /// Writes the amount in the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |scale: f64| self.bytes as f64 >= scale && self.bytes.is_multiple_of(scale as u64);
        let (unit, scale) = UNITS.iter().rev().find(|(_, scale)| fits(*scale)).unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", self.bytes / *scale as u64)
    }
}

crate::macros::as_text!(
    Bytes,
    "Bytes",
    r"^\s*[0-9]+(\.[0-9]+)?\s*(B|[KMGT]i?B)\s*$",
    "A number with its unit, for example 512MB, 4GB or 1.5GiB."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_and_written_with_its_unit() {
        for (text, bytes) in
            [("0B", 0), ("512MB", 512_000_000), ("4GB", 4_000_000_000), ("3GiB", 3_221_225_472), ("7B", 7)]
        {
            let size: Bytes = text.parse().unwrap();
            assert_eq!(size.get(), bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("1.5GiB".parse::<Bytes>().unwrap().get(), 1_610_612_736);
    }

    #[test]
    fn an_amount_without_a_unit_is_refused_with_an_example() {
        for text in ["10", "4gb", "much", "-1GB", "", "1e30TB"] {
            assert!(text.parse::<Bytes>().unwrap_err().to_string().contains("for example 512MB"), "{text}");
        }
    }
}
