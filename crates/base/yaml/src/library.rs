//! Turns an error of the YAML library into a fault.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, ExternalMessageSource, Location};

use crate::cause::{self, Place};
use crate::fault::Fault;
use crate::{syntax, types};

/// The largest number of characters of a value that a message repeats.
const REPEATED_CHARACTERS_MAX: usize = 60;

/// The innermost error, without the lines that the library puts around it.
pub fn original(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// The value at a place, as typed: the rest of the line for a map or a list over several lines.
pub fn token(text: &str, at: Location, place: Place) -> Option<&str> {
    let start = cause::offset(text, place)?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    let token = text.get(start..start.checked_add(length)?)?;
    if token.is_empty() { text[start..].lines().next() } else { Some(token) }
}

/// Whether the text at an error is valid YAML, so that only a value or a name is wrong.
pub const fn is_yaml(error: &Error) -> bool {
    !matches!(error, Error::ExternalMessage { .. } | Error::Eof { .. } | Error::Budget { .. })
}

/// The fault behind an error; `token` is the value at its place, as typed.
pub fn fault(error: &Error, token: Option<&str>) -> Fault {
    unknown_or_missing(error)
        .or_else(|| wrong_value(error, token))
        .unwrap_or_else(|| Fault::Said(sentence(error)))
}

fn unknown_or_missing(error: &Error) -> Option<Fault> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Some(match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            Fault::UnknownKey { key: field.clone(), known: owned(expected) }
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            Fault::UnknownChoice { word: variant.clone(), known: owned(expected) }
        }
        Error::SerdeMissingField { field, .. } => Fault::MissingKey((*field).to_owned()),
        Error::DuplicateMappingKey { key, .. } => Fault::DuplicateKey(key.clone()),
        Error::Message { msg, .. } | Error::SerdeVariantId { msg, .. } | Error::HookError { msg, .. } => {
            Fault::of_message(msg)
        }
        _ => return None,
    })
}

fn wrong_value(error: &Error, token: Option<&str>) -> Option<Fault> {
    let typed =
        |wanted: &str| Fault::WrongValue { found: token.and_then(shape), wanted: types::wanted(wanted) };
    let plain = |found: Option<&str>, wanted: &str| Fault::WrongValue {
        found: found.map(str::to_owned).or_else(|| token.and_then(shape)),
        wanted: wanted.to_owned(),
    };
    Some(match error {
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            Fault::WrongValue { found: Some(types::found(unexpected)), wanted: types::wanted(expected) }
        }
        Error::SerdeInvalidLength { len, expected, .. } => Fault::WrongValue {
            found: Some(types::length(&len.to_string())),
            wanted: types::wanted(expected),
        },
        Error::Unexpected { expected, .. } => typed(expected),
        Error::InvalidScalar { ty, .. } => typed(ty),
        Error::NonFiniteFloat { value, .. } => plain(Some(&format!("the number {value}")), "a finite number"),
        Error::NullIntoString { .. } => plain(Some("no value"), "a text"),
        Error::InvalidCharNull { .. } => plain(Some("no value"), "one character"),
        Error::InvalidCharNotSingleScalar { .. } => plain(None, "one character"),
        Error::InvalidBooleanStrict { .. } => plain(None, "true or false"),
        Error::UnexpectedValueForUnit { .. } | Error::UnexpectedValueForUnitEnumVariant { .. } => {
            plain(None, "the word alone, without a value")
        }
        Error::ExpectedEmptyMappingForUnitStruct { .. } => plain(None, "{}"),
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            plain(None, "a word, or a map with a single key")
        }
        Error::ExpectedStringKeyForExternallyTaggedEnum { .. } => plain(None, "a word as the key"),
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            plain(Some("a second key"), "a map with a single key")
        }
        Error::QuotingRequired { value, .. } => plain(None, &format!("\"{value}\" in quotes")),
        Error::TaggedEnumMismatch { tagged, .. } => plain(Some(&format!("the tag `{tagged}`")), "no tag"),
        _ => return None,
    })
}

/// The shape of a value, from its text.
fn shape(token: &str) -> Option<String> {
    let token = token.trim();
    if matches!(token, "" | "~" | "null") || token.starts_with([':', '#']) {
        return Some("no value".into());
    }
    if token.starts_with("- ") || token.starts_with('[') || token == "-" {
        return Some("a list".into());
    }
    if token.starts_with('{') || token.contains(": ") || token.ends_with(':') {
        return Some("a map".into());
    }
    let is_short = token.chars().count() <= REPEATED_CHARACTERS_MAX && !token.contains('\n');
    is_short.then(|| format!("`{token}`"))
}

/// The sentence for an error that is neither about a name nor about a type.
fn sentence(error: &Error) -> String {
    match error {
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(error) => syntax::sentence(error.kind()),
            _ => syntax::INVALID.to_owned(),
        },
        Error::Budget { breach, .. } => budget(breach),
        Error::Eof { .. } => "the text ends where a value belongs: write the value".into(),
        Error::MultipleDocuments { .. } => {
            "a second document begins here: keep one, and remove the line `---` between them".into()
        }
        Error::UnknownAnchor { .. } => {
            "no anchor of this name comes before the alias: write `&name` at the value to repeat, or quote a text that \
             begins with `*`"
                .into()
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_MANY_ALIASES.into(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias is part of the value that it repeats: write the value out".into()
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            "`<<` merges maps: give the alias of a map, or a list of such aliases".into()
        }
        Error::MergeKeyNotAllowed { .. } => "`<<` is not possible here: write the keys out".into(),
        Error::FoldedBlockScalarMustIndentContent { .. } | Error::IndentationError { .. } => {
            syntax::INDENTATION.into()
        }
        Error::UnsupportedTag { tag, .. } => format!("the tag `{tag}` is unknown: remove it"),
        Error::InvalidBinaryBase64 { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::BytesNotSupportedMissingBinaryTag { .. } => "a tag such as `!!binary` is not possible here: remove it".into(),
        Error::InvalidUtf8Input => "the text is not UTF-8: save it as UTF-8".into(),
        _ => syntax::INVALID.to_owned(),
    }
}

/// The sentence for a text with too many aliases.
const TOO_MANY_ALIASES: &str = "the aliases repeat too many values: write some of the values out";

fn budget(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { depth } => {
            format!("lists and maps are nested {depth} deep, which is too deep: nest them less")
        }
        BudgetBreach::Aliases { .. }
        | BudgetBreach::AliasAnchorRatio { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. } => TOO_MANY_ALIASES.into(),
        BudgetBreach::Anchors { anchors } => {
            format!("{anchors} anchors are too many: write some of the values out")
        }
        BudgetBreach::MergeKeys { merge_keys } => {
            format!("{merge_keys} merges with `<<` are too many: write some of the keys out")
        }
        BudgetBreach::Documents { documents } => format!("{documents} documents are too many: keep one"),
        _ => "the text holds too many values: make it smaller, or repeat fewer of them with aliases".into(),
    }
}
