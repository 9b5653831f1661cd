//! Matches patterns in which `*` stands for any bytes, also none.

/// Whether `text` matches `pattern`. Takes at most the time of the product of their lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where to resume when the last star must take one more byte.
    let mut star = None;
    while of < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, of));
            at += 1;
        } else if pattern.get(at) == Some(&text[of]) {
            (at, of) = (at + 1, of + 1);
        } else if let Some((behind, taken)) = star {
            star = Some((behind, taken + 1));
            (at, of) = (behind, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_bytes() {
        let cases = [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a*b*c", "aXbYbZc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("**", "x", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
