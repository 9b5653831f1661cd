//! Finds whole numbers in JSON that an int64 cannot hold: a parser returns the nearest double instead.

/// The place, counted from 1, of the first whole number of valid JSON that has more than 64 bits. The number of digits tells a number
/// apart from most others, so only a long one is parsed.
pub fn oversize_number(json: &[u8]) -> Option<usize> {
    const DIGITS_MIN: usize = 19;
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let rest = &json[at..];
        let len = match byte {
            b'"' => string_len(rest),
            b'-' | b'0'..=b'9' => rest.iter().position(|byte| !is_number(*byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        let number = std::str::from_utf8(&rest[..len]).ok().filter(|_| byte != b'"' && len >= DIGITS_MIN);
        let is_whole = |number: &&str| !number.contains(['.', 'e', 'E']);
        if number.filter(is_whole).is_some_and(|number| number.parse::<i64>().is_err()) {
            return Some(at + 1);
        }
        at += len;
    }
    None
}

/// The length of a string with its quotes.
fn string_len(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_whole_number_of_more_than_64_bits_is_found_outside_of_texts() {
        for (line, at) in [
            (r#"{"a": 9223372036854775807, "b": -9223372036854775808}"#, None),
            (r#"{"a": 9223372036854775808}"#, Some(7)),
            (r#"{"a": [1, -9223372036854775809]}"#, Some(11)),
            (r#"{"a": "9223372036854775808", "\"9223372036854775808\\": 1}"#, None),
            (
                r#"{"a": 9223372036854775808.0, "b": 92233720368547758080e3, "c": 0.9223372036854775808}"#,
                None,
            ),
            (r#"{"a\\": 18446744073709551616}"#, Some(9)),
        ] {
            assert_eq!(oversize_number(line.as_bytes()), at, "{line}");
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}
