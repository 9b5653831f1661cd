//! Parses a text with placeholders `{name}`; `{{` and `}}` are literal braces.

/// A part of a text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Literal text.
    Text(String),
    /// The name in braces.
    Name(String),
}

/// Splits a text at its placeholders; `None` if a brace has no partner.
pub(super) fn parse(text: &str) -> Option<Vec<Part>> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = after;
            continue;
        }
        let (name, after) = rest.split_once('}').filter(|(name, _)| brace == "{" && !name.contains('{'))?;
        flush(&mut plain, &mut parts);
        parts.push(Part::Name(name.to_owned()));
        rest = after;
    }
    plain.push_str(rest);
    flush(&mut plain, &mut parts);
    Some(parts)
}

fn flush(plain: &mut String, parts: &mut Vec<Part>) {
    if !plain.is_empty() {
        parts.push(Part::Text(std::mem::take(plain)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_placeholders() {
        let shown = |text: &str| {
            let part = |part: &Part| match part {
                Part::Text(text) => text.clone(),
                Part::Name(name) => format!("<{name}>"),
            };
            Some(parse(text)?.iter().map(part).collect::<Vec<_>>().join("|"))
        };
        for (text, expected) in [
            ("/a/{b}?c={d}", "/a/|<b>|?c=|<d>"),
            ("{a}{b}", "<a>|<b>"),
            ("plain", "plain"),
            ("{{a}} {b}", "{a} |<b>"),
            ("", ""),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["{a", "a}", "{a{b}}", "}{"] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
