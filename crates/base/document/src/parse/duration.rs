//! Parses durations: `90s`, `1h30m`, `-2d`.

use crate::error::Error;

use crate::arguments::Args;

const UNITS: [(&str, i64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// A duration in milliseconds.
pub(crate) fn parse(args: &Args<'_>) -> Result<i64, Error> {
    let expected = "a duration such as \"500ms\", \"90s\", \"1h30m\" or \"7d\"";
    milliseconds(args.text(expected)?).ok_or_else(|| args.expected(expected))
}

/// Parses a duration in milliseconds from text; `None` if it is invalid.
pub(crate) fn milliseconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit_end =
            rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == &rest[digits..unit_end])?;
        let count: i64 = rest[..digits].parse().ok()?;
        total = total.checked_add(count.checked_mul(*unit_ms)?)?;
        rest = &rest[unit_end..];
    }
    Some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, want) in [
            ("500ms", 500),
            ("1s", 1000),
            ("1h30m", 5_400_000),
            ("-2d", -172_800_000),
            ("0s", 0),
            ("1w", 604_800_000),
        ] {
            assert_eq!(milliseconds(text), Some(want), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_duration() {
        for text in
            ["", "-", "1", "s", "1 s", "1y", "1.5h", "99999999999999999999s", "9999999999999w", "é", "1sé"]
        {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
