//! Parses figures as wrk and wrk2 print them.

/// Both tools print times under this factor to the next unit.
const TIMES: [(&str, f64); 5] = [("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
const SIZES: [(&str, f64); 6] = [
    ("B", 1.0),
    ("KB", 1024.0),
    ("MB", 1_048_576.0),
    ("GB", 1_073_741_824.0),
    ("TB", 1_099_511_627_776.0),
    ("PB", 1_125_899_906_842_624.0),
];
const SECOND_NS: f64 = 1e9;

/// `22464657 requests in 30.00s, 17.76GB read`: how many, in how many seconds, how many bytes.
pub(super) fn requests(words: &str) -> Option<(u64, f64, f64)> {
    let (count, rest) = words.split_once(" requests in ")?;
    let (took, size) = rest.strip_suffix(" read")?.split_once(", ")?;
    Some((count.parse().ok()?, time(took)? / SECOND_NS, self::size(size)?))
}

/// The first two whole words that are numbers.
pub(super) fn numbers(words: &str) -> Option<[f64; 2]> {
    let mut found = words.split_whitespace().filter_map(finite);
    Some([found.next()?, found.next()?])
}

/// A time in whole nanoseconds.
pub(super) fn time(text: &str) -> Option<f64> {
    scaled(text, &TIMES).map(f64::round)
}

/// A size in bytes.
pub(super) fn size(text: &str) -> Option<f64> {
    scaled(text, &SIZES)
}

/// A number with one of these units behind it.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(finite(number)? * factor)
}

/// A number that is not negative and has an end.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_in_every_unit() {
        for (text, ns) in [
            ("635.91us", Some(635_910.0)),
            ("12.92ms", Some(12_920_000.0)),
            ("1.20s", Some(1.2e9)),
            ("1.50m", Some(90e9)),
            ("1.00h", Some(3600e9)),
            ("5.00", None),
            ("-nanus", None),
            ("-5us", None),
        ] {
            assert_eq!(time(text), ns, "{text}");
        }
        for (text, bytes) in [("512.00B", Some(512.0)), ("1.50KB", Some(1536.0)), ("2.00M", None)] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn the_line_of_requests_has_three_figures() {
        assert_eq!(requests("12 requests in 1.00m, 1.00KB read"), Some((12, 60.0, 1024.0)));
        assert_eq!(requests("12 requests in soon, 1.00KB read"), None);
    }
}
