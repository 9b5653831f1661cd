//! Marks the place of an error in the text of an option.

use std::fmt;

use anyhow::anyhow;
use plimsoll_document::{Error, Template};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

use crate::secret;
use crate::typed::read_untyped;

/// The columns of the shown line before and after the place.
const BEFORE: usize = 60;
const AFTER: usize = 30;

/// An option and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) option: &'a str,
    pub(super) text: &'a str,
}

/// A place in the text: line and column from 0, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Source<'_> {
    /// The template in the text.
    pub(super) fn template(&self) -> anyhow::Result<Template> {
        if self.text.trim().is_empty() {
            return Err(self.at_start("the text is empty: write {} or fields such as {a: 1}"));
        }
        read_untyped(self.text).map_err(|slip| {
            let from_zero = |(line, column): plimsoll_yaml::Place| Place {
                line: line.saturating_sub(1),
                column: column.saturating_sub(1),
            };
            self.said(&slip.fault.to_string(), slip.place.map(from_zero).unwrap_or_default())
        })
    }

    /// The error of a template, with its place.
    pub(super) fn marked(&self, error: &Error) -> anyhow::Error {
        self.marked_in("", error)
    }

    /// The error of the template at a path such as `.one_of[1]`, with its place.
    pub(super) fn marked_in(&self, at: &str, error: &Error) -> anyhow::Error {
        // The path in a filter or an update begins with a dot.
        let message = format!("{at}{error}");
        self.said(message.trim_start_matches('.'), self.place_of(at, error).unwrap_or_default())
    }

    /// An error at a top-level key.
    pub(super) fn at_key(&self, key: &str, message: &str) -> anyhow::Error {
        self.said(message, self.after(Place::default(), key).unwrap_or_default())
    }

    /// An error of the whole text.
    pub(super) fn at_start(&self, message: &str) -> anyhow::Error {
        self.said(message, Place::default())
    }

    fn said(&self, message: &str, place: Place) -> anyhow::Error {
        let option = self.option;
        match secret::in_yaml(self.text) {
            Some(secrets) if secrets.is_empty() => {}
            Some(secrets) if !secret::are_in(message, &secrets) => return anyhow!("{option}: {message}"),
            _ => {
                return anyhow!("{option}: invalid, and not shown because it may hold a password or a token");
            }
        }
        let lines: Vec<&str> = self.text.lines().collect();
        // A place behind the last line is shown at the end of the last line.
        let (line, column) = match lines.get(place.line) {
            Some(line) => (*line, place.column),
            None => (lines.last().copied().unwrap_or_default(), usize::MAX),
        };
        let line: Vec<char> = line.chars().collect();
        let column = column.min(line.len());
        let from = column.saturating_sub(BEFORE);
        let to = (from + BEFORE + AFTER).min(line.len());
        let shown: String = line[from..to].iter().collect();
        let cut = if from > 0 { "…" } else { "" };
        let column = column - from + cut.chars().count();
        anyhow!("{option}: {message}\n  {cut}{shown}\n  {:column$}^", "")
    }

    /// The place of the value at the error's path, or of the wrong key inside that value.
    fn place_of(&self, at: &str, error: &Error) -> Option<Place> {
        let root: Spanned<Node> = serde_saphyr::from_str(self.text).ok()?;
        let path = error.path()?;
        let rest = path.strip_prefix("document").unwrap_or(path);
        let value = Place::of(&deepest(&root, &format!("{at}{rest}")).referenced)?;
        Some(error.key().and_then(|key| self.after(value, key)).unwrap_or(value))
    }

    /// The first occurrence of a key from a place on.
    fn after(&self, place: Place, key: &str) -> Option<Place> {
        self.text.lines().enumerate().skip(place.line).find_map(|(line, text)| {
            let from = if line == place.line { place.column } else { 0 };
            let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
            let found = text[start..].find(key)?;
            Some(Place { line, column: from + text[start..start + found].chars().count() })
        })
    }
}

impl Place {
    fn of(location: &Location) -> Option<Self> {
        let from_one = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        Some(Self { line: from_one(location.line())?, column: from_one(location.column())? })
    }
}

/// A value with the places of all values inside it.
#[derive(Debug)]
enum Node {
    Map(Vec<(String, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Scalar,
}

/// The value at a path such as `.a.b[1].$text`, or the deepest existing value on the way to it. A key may
/// contain dots.
fn deepest<'a>(node: &'a Spanned<Node>, path: &str) -> &'a Spanned<Node> {
    let next = match &node.value {
        Node::Map(fields) => fields.iter().find_map(|(key, value)| {
            let rest = path.strip_prefix('.')?.strip_prefix(key.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((value, rest))
        }),
        Node::List(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| path.strip_prefix(&format!("[{index}]")).map(|rest| (item, rest))),
        Node::Scalar => None,
    };
    next.map_or(node, |(value, rest)| deepest(value, rest))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Located)
    }
}

struct Located;

impl<'de> Visitor<'de> for Located {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }
}
