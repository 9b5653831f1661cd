//! Forms sentences and lists.

/// The non-breaking space between two words that must stay on one line.
pub(crate) const GLUE: char = '\u{a0}';

/// Words that belong to the number before them.
const UNITS: [&str; 11] = ["ns", "µs", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB"];
/// Words that belong to the number after them.
const SIGNS: [&str; 6] = ["<", "<=", ">", ">=", "≤", "÷"];

/// `text` with every number glued to its unit and to the sign before it.
pub(crate) fn glued(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    let mut last = "";
    for word in text.split(' ') {
        if !glued.is_empty() {
            glued.push(if belong(last, word) { GLUE } else { ' ' });
        }
        glued.push_str(word);
        last = word;
    }
    glued
}

/// `text` with a capital letter at its start and a full stop at its end.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.is_empty() || text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

/// A phase as the subject of a sentence: `Phase load`, and `Phase 1` for the default name `phase 1`.
pub(crate) fn phase(name: &str) -> String {
    format!("Phase {}", name.strip_prefix("phase ").unwrap_or(name))
}

/// Outside text with its control characters replaced, which could control a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The first `max` of `names` as a list: `a, b, and 3 more`.
pub(crate) fn some(names: &[String], max: usize) -> String {
    let more = names.len().saturating_sub(max);
    let more = (more > 0).then(|| format!("and {more} more"));
    names.iter().take(max).cloned().chain(more).collect::<Vec<_>>().join(", ")
}

/// Each of `items` in words, separated by `separator`.
pub(crate) fn joined<T>(items: &[T], separator: &str, words: impl Fn(&T) -> String) -> String {
    items.iter().map(words).collect::<Vec<_>>().join(separator)
}

/// An enumeration: `a`, `a and b`, `a, b and c`.
pub(crate) fn enumerated(items: &[impl AsRef<str>]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [most @ .., before, last] => [most, &[format!("{before} and {last}").as_str()]].concat().join(", "),
        few => few.concat(),
    }
}

fn belong(last: &str, word: &str) -> bool {
    let bare = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let is_number =
        |word: &str, end: Option<char>| end.is_some_and(|c| c.is_ascii_digit()) && !word.is_empty();
    is_number(last, last.chars().next_back()) && UNITS.contains(&bare)
        || SIGNS.contains(&last) && is_number(word, word.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_becomes_a_sentence() {
        assert_eq!(sentence("the search ended early: a signal"), "The search ended early: a signal.");
        assert_eq!(sentence("Done."), "Done.");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn a_default_phase_name_is_not_repeated() {
        assert_eq!((phase("phase 1"), phase("load")), ("Phase 1".to_owned(), "Phase load".to_owned()));
    }

    #[test]
    fn a_number_keeps_its_unit_and_its_sign() {
        let glue = |text: &str| text.replace('_', "\u{a0}");
        assert_eq!(glued("p99 < 50 ms, 3 of 4 s."), glue("p99 <_50_ms, 3 of 4_s."));
        assert_eq!(glued("is it so"), "is it so");
    }
}
