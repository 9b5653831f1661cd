//! Finds the true place of a slip that the parser notices only later.

use serde_saphyr::granit_parser::ErrorKind as Kind;
use serde_saphyr::{Error, ExternalMessageSource};

use crate::fault::Fault;
use crate::syntax;

/// A line and a column, both from 1. A column is a character.
pub type Place = (usize, usize);

/// The cause of an error that the parser noticed at `place`, and the cause's own place. `None` if the
/// parser's place is the cause.
pub fn earlier(error: &Error, text: &str, place: Place) -> Option<(Fault, Place)> {
    // The parser reads a tab before the first key as a space, and then misses the keys below.
    if let Some(at) = tab(text, place).filter(|(line, _)| *line == place.0) {
        return Some((Fault::Said(syntax::TAB.to_owned()), at));
    }
    match error {
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(error) => of_parser(error.kind(), text, place),
            _ => None,
        },
        Error::Unexpected { expected: "mapping start" | "sequence start", .. } => word_alone(text, place),
        _ => None,
    }
}

fn of_parser(kind: &Kind, text: &str, place: Place) -> Option<(Fault, Place)> {
    if let Some(at) = tab_before_first_key(text) {
        return Some((Fault::Said(syntax::TAB.to_owned()), at));
    }
    let at = if syntax::is_tab(kind) {
        tab(text, place)?
    } else if matches!(kind, Kind::InvalidQuotedScalarIndent | Kind::DocumentIndicatorInQuotedScalar) {
        opening_quote(text, place)?
    } else {
        return None;
    };
    Some((Fault::Said(syntax::sentence(kind)), at))
}

/// The first tab in an indentation, on the line of a place or below.
fn tab(text: &str, (line, _): Place) -> Option<Place> {
    text.lines().enumerate().skip(line.checked_sub(1)?).find_map(|(index, text)| {
        let indentation = text.chars().take_while(|c| c.is_whitespace());
        indentation.enumerate().find(|(_, c)| *c == '\t').map(|(at, _)| (index + 1, at + 1))
    })
}

/// The tab in the indentation of the first key. The parser notices it only at the next key, which is indented less.
fn tab_before_first_key(text: &str) -> Option<Place> {
    let first =
        text.lines().position(|line| !matches!(line.trim_start().chars().next(), None | Some('#')))?;
    tab(text, (first + 1, 1)).filter(|(line, _)| *line == first + 1)
}

/// The last quote before a place that opens a text.
fn opening_quote(text: &str, place: Place) -> Option<Place> {
    let before = &text[..offset(text, place)?];
    let begins =
        |at: usize| before[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "[{,:".contains(c));
    let at = before.rmatch_indices(['\'', '"']).map(|(at, _)| at).find(|at| begins(*at))?;
    Some(place_of(text, at))
}

/// A word that needs settings, and has none: the parser then meets the next key or the end of the map.
fn word_alone(text: &str, place: Place) -> Option<(Fault, Place)> {
    let offset = offset(text, place)?;
    let rest = text[offset..].lines().next().unwrap_or_default();
    let key = rest.trim_start_matches(|c: char| !c.is_whitespace() && c != ':');
    let is_next = rest.is_empty() || rest.starts_with(['}', ']']) || key.starts_with(':');
    let before = without_comments(&text[..offset]).trim_end_matches(|c: char| c.is_whitespace() || c == ',');
    let word = before.rsplit(|c: char| c.is_whitespace() || "[{,:".contains(c)).next()?;
    let place = place_of(text, before.len() - word.len());
    (is_next && !word.is_empty()).then(|| (Fault::NeedsSettings(word.to_owned()), place))
}

/// The text without the comments and blank lines at its end.
fn without_comments(text: &str) -> &str {
    let start = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..];
    let comment = if line.trim_start().starts_with('#') { Some(0) } else { line.find(" #") };
    match comment {
        Some(at) if start + at > 0 => without_comments(&text[..start + at]),
        _ => text.trim_end(),
    }
}

/// The key of the value at a place, if both are on one line.
pub fn key(text: &str, place: Place) -> Option<&str> {
    let before = text[..offset(text, place)?].rsplit('\n').next()?;
    let before = before.trim_end().strip_suffix(':')?.trim_end();
    let key = before.rsplit(|c: char| c.is_whitespace() || "[{,".contains(c)).next()?;
    Some(key.trim_matches(['\'', '"'])).filter(|key| !key.is_empty())
}

/// The byte at a place; the end of the text for a place after it.
pub fn offset(text: &str, (line, column): Place) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n').take(line.checked_sub(1)?) {
        start += line.len();
    }
    let within = text[start..].char_indices().nth(column.checked_sub(1)?);
    Some(within.map_or(text.len(), |(at, _)| start + at))
}

fn place_of(text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
}
