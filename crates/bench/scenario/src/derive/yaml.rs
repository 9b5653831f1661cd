//! Writes a tree of settings as YAML with comments.

use std::fmt::Write;

use serde_json::{Map, Value};

/// A setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The comment above it, one line.
    pub(super) comment: Option<String>,
    pub(super) tree: Tree,
}

/// The layout of a value: in one line, or over several lines that may have comments.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// In one line.
    Flow(Value),
    /// One setting per line.
    Block(Vec<Entry>),
}

/// Words that YAML reads as something else than text.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

impl Entry {
    /// A setting without a comment.
    pub(super) fn plain(key: &str, tree: Tree) -> Self {
        Self { key: key.to_owned(), comment: None, tree }
    }
}

impl Tree {
    /// Settings, in one line if no comment is in them.
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let is_short =
            entries.iter().all(|entry| entry.comment.is_none() && matches!(entry.tree, Self::Flow(_)));
        if is_short { Self::Flow(Self::Block(entries).into_value()) } else { Self::Block(entries) }
    }

    /// The value without the comments.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Flow(value) => value,
            Self::Block(entries) => {
                Value::Object(entries.into_iter().map(|entry| (entry.key, entry.tree.into_value())).collect())
            }
        }
    }
}

/// The settings, each line after `indent` spaces.
pub(super) fn block(entries: &[Entry], indent: usize) -> String {
    let mut text = String::new();
    entries.iter().for_each(|entry| write_entry(entry, indent, &mut text));
    text
}

fn write_entry(entry: &Entry, indent: usize, text: &mut String) {
    let Entry { key, comment, tree } = entry;
    if let Some(comment) = comment {
        line(text, indent, &format!("# {comment}"));
    }
    match tree {
        Tree::Flow(value) => line(text, indent, &format!("{}: {}", name(key), flow(value))),
        Tree::Block(entries) => {
            line(text, indent, &format!("{}:", name(key)));
            text.push_str(&block(entries, indent + 2));
        }
    }
}

fn line(text: &mut String, indent: usize, content: &str) {
    text.extend(std::iter::repeat_n(' ', indent));
    text.push_str(content);
    text.push('\n');
}

/// A value in one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => format!("{{{}}}", pairs(map)),
        other => other.to_string(),
    }
}

fn pairs(map: &Map<String, Value>) -> String {
    let pairs = map.iter().map(|(key, value)| format!("{}: {}", name(key), flow(value)));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A key, quoted where necessary.
fn name(key: &str) -> String {
    let bare = key.strip_prefix(['$', '_']).unwrap_or(key);
    if is_word(bare) { key.to_owned() } else { quoted(key) }
}

/// Whether YAML reads a text without quotes as this text.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

/// A text in double quotes, with everything but printable ASCII escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            other => write!(out, "\\U{:08X}", u32::from(other)).unwrap_or_default(),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_reads_back_as_itself() {
        let odd = [
            "a",
            "",
            " ",
            "no",
            "Null",
            "~",
            "1",
            "1e5",
            "a: b",
            "#x",
            "é",
            "日本",
            "a\nb",
            "\t",
            "\u{7f}\u{85}\u{2028}",
            "\u{1F600}",
            "\"\\",
            "$**",
            "a.b",
            "-",
            "? x",
            "{}",
            "*a",
            "_p",
            "$pick",
            "\u{feff}",
            "2026-01-01",
        ];
        for text in odd {
            let line = format!("{}: {}\n", name(text), flow(&json!([text, {"k": text}])));
            let read: Map<String, Value> =
                serde_saphyr::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(Value::Object(read), json!({text: [text, {"k": text}]}), "{line}");
        }
    }

    #[test]
    fn comments_make_a_block_and_the_rest_stays_in_one_line() {
        let inner = Entry { key: "min".into(), comment: None, tree: Tree::Flow(json!(1)) };
        let short = Entry::plain("a", Tree::of(vec![inner.clone()]));
        assert_eq!(block(&[short], 2), "  a: {min: 1}\n");
        let commented = Entry { comment: Some("seen".into()), ..inner };
        let long = Entry::plain("a", Tree::of(vec![commented]));
        assert_eq!(block(&[long], 0), "a:\n  # seen\n  min: 1\n");
    }
}
