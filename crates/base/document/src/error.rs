//! Reports faults of a template. Each message names the path and the fix.

use thiserror::Error as Derive;

/// The reason why a template could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[non_exhaustive]
pub enum Error {
    /// A value is not of the expected kind.
    #[error("{path}: expected {expected}, got {got}")]
    Expected {
        /// The path, as in `document.note.$text.bytes`.
        path: String,
        /// The expected value.
        expected: String,
        /// The found value, as JSON.
        got: String,
    },
    /// A required setting of a generator is missing.
    #[error("{path}: missing \"{name}\"; {remedy}")]
    Missing {
        /// The generator's path.
        path: String,
        /// The setting's name.
        name: String,
        /// The remedy.
        remedy: String,
    },
    /// A key that begins with `$` is neither a generator nor Extended JSON.
    #[error("{path}: unknown generator \"{name}\"; {remedy}")]
    UnknownGenerator {
        /// The field's path.
        path: String,
        /// The key.
        name: String,
        /// The nearest generator, or all of them.
        remedy: String,
    },
    /// A generator does not have this setting.
    #[error("{path}: unknown setting \"{name}\"; {remedy}")]
    UnknownSetting {
        /// The generator's path.
        path: String,
        /// The setting's name.
        name: String,
        /// The nearest setting, or all of them.
        remedy: String,
    },
    /// A generator shares its object with other keys.
    #[error("{path}: \"{name}\" must be the only key of its object; move the other keys out of it")]
    NotAlone {
        /// The field's path.
        path: String,
        /// The generator.
        name: String,
    },
    /// A field's name cannot be used.
    #[error("{path}: {problem}")]
    Field {
        /// The field's path.
        path: String,
        /// The fault of the name, and its remedy.
        problem: String,
    },
    /// `$same` names no earlier field.
    #[error("{path}: no earlier field \"{target}\"; {remedy}")]
    NoSuchField {
        /// The path of the `$same`.
        path: String,
        /// The field that it names.
        target: String,
        /// The nearest field, or all that can be named.
        remedy: String,
    },
    /// A generator is in an invalid place.
    #[error("{path}: {problem}")]
    Misplaced {
        /// The generator's path.
        path: String,
        /// The reason, and the remedy.
        problem: String,
    },
    /// `$pad` aims below the size of the padded document.
    #[error(
        "{path}: the rest of the document takes up to {needed} bytes; set `to` to {needed} or more, or shorten the rest"
    )]
    PadTooShort {
        /// The path of `to`.
        path: String,
        /// The smallest valid value, in bytes.
        needed: usize,
    },
    /// Documents or arrays are nested too deep.
    #[error("{path}: nested deeper than {} levels, MongoDB's limit; flatten the document", crate::DEPTH_MAX)]
    TooDeep {
        /// The path at which the limit is exceeded.
        path: String,
    },
    /// The document may exceed the size limit.
    #[error("document may be up to {bytes} bytes, over {}; shorten its texts or arrays", limit_name(*limit))]
    TooLarge {
        /// The largest size the document may have, in bytes.
        bytes: usize,
        /// The size limit, in bytes.
        limit: usize,
    },
}

impl Error {
    /// The path of the invalid value, as in `document.note.$text.bytes`. `None` if the document as a whole is invalid.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Expected { path, .. }
            | Self::Missing { path, .. }
            | Self::UnknownGenerator { path, .. }
            | Self::UnknownSetting { path, .. }
            | Self::NotAlone { path, .. }
            | Self::Field { path, .. }
            | Self::NoSuchField { path, .. }
            | Self::Misplaced { path, .. }
            | Self::PadTooShort { path, .. }
            | Self::TooDeep { path } => Some(path),
            Self::TooLarge { .. } => None,
        }
    }

    /// The invalid key inside the value at the path, if a key is the fault.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownGenerator { name, .. }
            | Self::UnknownSetting { name, .. }
            | Self::NotAlone { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// Names the size limit: MongoDB's, or another.
fn limit_name(limit: usize) -> String {
    if limit == crate::DOCUMENT_BYTES_MAX {
        format!("MongoDB's limit of {limit}")
    } else {
        format!("the limit of {limit}")
    }
}

/// "did you mean ..." for the nearest of `known`, or the list of all of them.
pub(crate) fn suggestion(name: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|k| (strsim::damerau_levenshtein(name, k), k)).min();
    match nearest {
        Some((distance, known)) if distance <= 2 && distance < name.len() => {
            format!("did you mean \"{known}\"?")
        }
        Some(_) => format!("known here: {}", known.join(", ")),
        None => "no name is valid here".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_gets_the_list() {
        assert_eq!(suggestion("$txt", &["$text", "$int"]), "did you mean \"$text\"?");
        assert_eq!(suggestion("$lorem", &["$text", "$int"]), "known here: $text, $int");
        assert_eq!(suggestion("x", &[]), "no name is valid here");
    }
}
