//! Reads a value from YAML text, and reports its first slip.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::Location;

use crate::cause::{self, Place};
use crate::fault::Fault;
use crate::{excerpt, library, path};

/// The character that some editors write at the start of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The first slip in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Slip {
    /// The slip and its remedy.
    pub fault: Fault,
    /// The line and the column, both from 1. A column is a character. `None` if the slip has no place.
    pub place: Option<Place>,
    /// The key of the slip's value. `None` if the text is not YAML, or if the key is on another line.
    pub key: Option<String>,
}

/// Reads a file's whole text.
///
/// # Errors
/// The first slip. A text without a value counts as a slip.
pub fn document<T: DeserializeOwned>(text: &str) -> Result<T, Slip> {
    if is_blank(text) {
        return Err(Slip { fault: Fault::Empty, place: None, key: None });
    }
    value(text)
}

/// Reads a value. An empty text is allowed.
///
/// # Errors
/// The first slip.
pub fn value<T: DeserializeOwned>(text: &str) -> Result<T, Slip> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    serde_saphyr::from_str(text).map_err(|error| Slip::of(&error, text))
}

/// Whether a text holds nothing but blank lines, comments and the mark of a document's start.
fn is_blank(text: &str) -> bool {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.lines().map(str::trim).all(|line| line.is_empty() || line == "---" || line.starts_with('#'))
}

impl Slip {
    fn of(error: &serde_saphyr::Error, text: &str) -> Self {
        let error = library::original(error);
        let at = error.location().filter(|at| *at != Location::UNKNOWN);
        let place = at.map(|at| (position(at.line()), position(at.column())));
        if let Some((fault, place)) = place.and_then(|place| cause::earlier(error, text, place)) {
            return Self { fault, place: Some(place), key: None };
        }
        let token = at.zip(place).and_then(|(at, place)| library::token(text, at, place));
        let fault = library::fault(error, token);
        let place = place.map(|place| value_place(text, place, &fault).unwrap_or(place));
        let key = place.filter(|_| library::is_yaml(error)).and_then(|place| cause::key(text, place));
        Self { fault, place, key: key.map(str::to_owned) }
    }

    /// The slip with its place and the line at that place, labelled as a line of `origin`.
    pub fn with_excerpt(&self, text: &str, origin: &str) -> String {
        let excerpt = self.place.and_then(|place| excerpt::around(text, origin, place));
        format!("{self}{}", excerpt.map(|excerpt| format!("\n{excerpt}")).unwrap_or_default())
    }

    /// The place as a prefix, such as `line 3, column 7: `.
    pub fn prefix(&self) -> String {
        self.place.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default()
    }
}

impl fmt::Display for Slip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix(), self.fault)
    }
}

impl std::error::Error for Slip {}

/// The place of an invalid word whose error has the place of its key.
fn value_place(text: &str, key: Place, fault: &Fault) -> Option<Place> {
    let Fault::UnknownChoice { word, .. } = fault else { return None };
    let (value, place) = path::value_of_key_at(text, key)?;
    (value == *word).then_some(place)
}

fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
