//! Describes a slip: what is wrong, and what to write.

use std::fmt;

use crate::types;

/// The least similarity (Jaro–Winkler) of a known name that is suggested for an unknown one.
const SIMILAR_MIN: f64 = 0.75;
/// The opening of serde's sentence about a value that has none of a type's forms.
const UNTAGGED: &str = "data did not match any variant of untagged enum ";

/// The openings of serde's sentences, which a type may pass on as text.
const OPENINGS: [&str; 8] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "unknown field `",
    "unknown variant `",
    "missing field `",
    "duplicate field `",
    UNTAGGED,
];
/// Begins the place that serde_json appends to a sentence.
const AT_LINE: &str = " at line ";
/// The ends of serde_json's sentences about a text that is not JSON, before their place.
const NOT_JSON: [&str; 10] = [
    "expected ident",
    "expected value",
    "expected `:`",
    "expected `,` or `}`",
    "expected `,` or `]`",
    "trailing characters",
    "trailing comma",
    "key must be a string",
    "EOF while parsing a value",
    "EOF while parsing an object",
];

/// A slip and its remedy.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The text holds no value.
    Empty,
    /// A key that its map does not have.
    UnknownKey {
        /// The key.
        key: String,
        /// The keys of the map.
        known: Vec<String>,
    },
    /// A word that is none of the choices.
    UnknownChoice {
        /// The word.
        word: String,
        /// The choices.
        known: Vec<String>,
    },
    /// A required key is missing.
    MissingKey(String),
    /// A key appears twice in its map. `None` if the key is unknown.
    DuplicateKey(Option<String>),
    /// A value of the wrong type, or out of its range.
    WrongValue {
        /// The value that was found, in our words. `None` if it is unknown.
        found: Option<String>,
        /// The value to write, in our words.
        wanted: String,
    },
    /// A word that stands alone, although it needs settings.
    NeedsSettings(String),
    /// Any other slip, as a complete sentence.
    Said(String),
}

impl Fault {
    /// The fault behind an error message of a type's deserialization. The message may be one of serde's.
    pub fn of_message(message: &str) -> Self {
        let (sentence, after) = message.split_at(end_of_sentence(message));
        let is_whole = after.is_empty() || after.starts_with(AT_LINE) || after.starts_with('\n');
        match Self::of_sentence(sentence) {
            Some(fault) if is_whole => fault,
            // The found value stays apart, because it may be a secret.
            Some(Self::WrongValue { found, wanted }) => {
                Self::WrongValue { found, wanted: wanted + &in_our_words(after) }
            }
            _ => Self::Said(in_our_words(message)),
        }
    }

    /// The fault behind a sentence that is wholly serde's.
    fn of_sentence(sentence: &str) -> Option<Self> {
        unknown(sentence)
            .or_else(|| quoted_after(sentence, "missing field ").map(Self::MissingKey))
            .or_else(|| quoted_after(sentence, "duplicate field ").map(|key| Self::DuplicateKey(Some(key))))
            .or_else(|| wrong(sentence))
            .or_else(|| sentence.strip_prefix(UNTAGGED).map(|_| none_of_the_forms()))
    }

    /// The fault without texts of the file, except keys and choices: any other text may be a secret.
    #[must_use]
    pub fn without_texts(self) -> Self {
        let is_text = |found: &String| found.starts_with('`') || found.starts_with("the text ");
        match self {
            Self::WrongValue { found, wanted } => {
                Self::WrongValue { found: found.filter(|found| !is_text(found)), wanted }
            }
            Self::NeedsSettings(_) => Self::Said("this word needs settings: write `word: {…}`".into()),
            other => other,
        }
    }

    /// The known name nearest to an unknown one.
    pub fn near(&self) -> Option<&str> {
        let (Self::UnknownKey { key: name, known } | Self::UnknownChoice { word: name, known }) = self else {
            return None;
        };
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        nearest(name, &known)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty: write its keys, or name another file"),
            Self::UnknownKey { key, known } => {
                write!(f, "unknown key `{key}`: {}", advice(self.near(), known, "key"))
            }
            Self::UnknownChoice { word, known } => {
                write!(f, "unknown choice `{word}`: {}", advice(self.near(), known, "choice"))
            }
            Self::MissingKey(key) => write!(f, "the key `{key}` is missing: add it"),
            Self::DuplicateKey(Some(key)) => write!(f, "the key `{key}` appears twice: keep one of them"),
            Self::DuplicateKey(None) => f.write_str("a key appears twice: keep one of them"),
            Self::WrongValue { found: Some(found), wanted } => write!(f, "found {found}: write {wanted}"),
            Self::WrongValue { found: None, wanted } => write!(f, "write {wanted} here"),
            Self::NeedsSettings(word) => write!(f, "`{word}` needs settings: write `{word}: {{…}}`"),
            Self::Said(said) => f.write_str(said),
        }
    }
}

/// Replaces the sentences of serde in a message by our words. A type may compose its message around a sentence of serde.
pub fn in_our_words(message: &str) -> String {
    if let Some(said) = not_json(message) {
        return said;
    }
    let Some(at) = OPENINGS.iter().filter_map(|opening| message.find(opening)).min() else {
        return message.to_owned();
    };
    let (before, rest) = message.split_at(at);
    let (sentence, after) = rest.split_at(end_of_sentence(rest));
    let said = Fault::of_sentence(sentence).map_or_else(|| sentence.to_owned(), |fault| fault.to_string());
    format!("{before}{said}{}", in_our_words(after))
}

/// The byte at which a sentence of serde ends within a message. Names in the message may contain any
/// character.
fn end_of_sentence(message: &str) -> usize {
    let from =
        [", expected ", "`, there are no "].iter().find_map(|part| Some(message.find(part)? + part.len()));
    let from = from.unwrap_or(0);
    let ends = [";", ")", " (", "\n", AT_LINE].iter().filter_map(|end| message[from..].find(end));
    ends.min().map_or(message.len(), |end| from + end)
}

/// Our words for serde_json's "expected ident at line 1 column 2" and similar sentences. `None` for any other
/// message.
fn not_json(message: &str) -> Option<String> {
    let (sentence, place) = message.rsplit_once(AT_LINE)?;
    let ending = NOT_JSON.iter().find(|ending| sentence.ends_with(*ending))?;
    let before = sentence.strip_suffix(ending)?;
    let place = place.replacen(" column ", ", column ", 1);
    Some(format!("{before}the text is not JSON: correct line {place}"))
}

/// The remedy for an unknown name.
fn advice(near: Option<&str>, known: &[String], kind: &str) -> String {
    let all = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (near, known) {
        (_, []) => format!("no {kind} is possible here"),
        (Some(near), [_]) => format!("did you mean `{near}`?"),
        (Some(near), _) => format!("did you mean `{near}`? Possible here: {all}"),
        (None, [only]) => format!("write `{only}`"),
        (None, _) => format!("write one of {all}"),
    }
}

/// The known name most similar to `name`, if one is similar enough.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILAR_MIN).then_some(best.1)
}

/// The text between the first two backticks after `opening`, if the message begins with it.
fn quoted_after(message: &str, opening: &str) -> Option<String> {
    message.strip_prefix(opening)?.split('`').nth(1).map(str::to_owned)
}

/// The fault of "unknown field `x`, expected one of `a`, `b`", and of the same sentence about a variant.
fn unknown(message: &str) -> Option<Fault> {
    let (opening, is_key) = if message.starts_with("unknown field ") {
        ("unknown field ", true)
    } else {
        ("unknown variant ", false)
    };
    let name = quoted_after(message, opening)?;
    let known = message.split_once(", expected ").map_or(Vec::new(), |(_, known)| {
        known.lines().next().unwrap_or_default().split('`').skip(1).step_by(2).map(str::to_owned).collect()
    });
    Some(if is_key {
        Fault::UnknownKey { key: name, known }
    } else {
        Fault::UnknownChoice { word: name, known }
    })
}

/// The fault of "invalid type: string \"x\", expected u32", and of the same sentence about a value or a
/// length.
fn wrong(message: &str) -> Option<Fault> {
    let openings = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = openings.iter().find_map(|opening| message.strip_prefix(opening))?;
    let (found, wanted) = rest.split_once(", expected ")?;
    let wanted = wanted.split(" at line ").next().unwrap_or(wanted);
    let is_length = message.starts_with("invalid length ");
    let found = if is_length { types::length(found) } else { types::found(found) };
    Some(Fault::WrongValue { found: Some(found), wanted: types::wanted(wanted) })
}

fn none_of_the_forms() -> Fault {
    Fault::Said("the value has none of the possible forms: look them up in the reference".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serdes_messages_get_our_words() {
        for (message, words) in [
            (
                "unknown field `servr`, expected `server` or `auth`",
                "unknown key `servr`: did you mean `server`? Possible here: `server`, `auth`",
            ),
            ("unknown field `x`, there are no fields", "unknown key `x`: no key is possible here"),
            ("unknown variant `zzz`, expected one of `lean`, `driver`, `both`", {
                "unknown choice `zzz`: write one of `lean`, `driver`, `both`"
            }),
            ("missing field `title`", "the key `title` is missing: add it"),
            ("duplicate field `expect`", "the key `expect` appears twice: keep one of them"),
            (
                "invalid type: sequence, expected a map at line 3 column 4",
                "found a list: write a map of keys",
            ),
            ("invalid length 2, expected an array of length 3", "found 2 values: write a list of 3 values"),
            ("data did not match any variant of untagged enum W", "the value has none of the possible forms"),
            ("`m` is no duration: write 5s", "`m` is no duration: write 5s"),
        ] {
            let said = Fault::of_message(message).to_string();
            assert!(said.starts_with(words), "{message}: {said}");
        }
    }

    #[test]
    fn a_sentence_of_serde_inside_a_message_gets_our_words() {
        for (message, words) in [
            (
                "batch: invalid type: map, expected u32",
                "batch: found a map: write a whole number from 0 to 4294967295",
            ),
            (
                "one_of: give a list of updates (invalid type: null, expected a map)",
                "one_of: give a list of updates (found no value: write a map of keys)",
            ),
            (
                "invalid type: sequence, expected f64; to compare with an object, write {equals: {…}}",
                "found a list: write a number; to compare with an object, write {equals: {…}}",
            ),
            (
                "service iot: invalid type: null, expected struct Trucks",
                "service iot: found no value: write a map of keys",
            ),
            ("iot: unknown field `zz`, expected `trucks`", "iot: unknown key `zz`: write `trucks`"),
            (
                "f1/run.json: expected ident at line 1 column 2",
                "f1/run.json: the text is not JSON: correct line 1, column 2",
            ),
            (
                "a: missing field `b` (c: missing field `d`)",
                "a: the key `b` is missing: add it (c: the key `d` is missing: add it)",
            ),
            ("`m` is no duration: write 5s", "`m` is no duration: write 5s"),
        ] {
            assert_eq!(in_our_words(message), words, "{message}");
            assert_eq!(Fault::of_message(message).to_string(), words, "{message}");
        }
    }

    #[test]
    fn a_text_that_may_be_a_secret_is_left_out() {
        let wrong =
            |found: &str| Fault::WrongValue { found: Some(found.into()), wanted: "a map of keys".into() };
        for (fault, words) in [
            (wrong("`swordfish`"), "write a map of keys here"),
            (wrong("the text \"swordfish\""), "write a map of keys here"),
            (wrong("a list"), "found a list: write a map of keys"),
            (Fault::NeedsSettings("swordfish".into()), "this word needs settings"),
            (Fault::MissingKey("title".into()), "the key `title` is missing: add it"),
        ] {
            let said = fault.without_texts().to_string();
            assert!(said.starts_with(words) && !said.contains("swordfish"), "{said}");
        }
    }
}
