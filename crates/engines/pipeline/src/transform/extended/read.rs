//! Converts BSON to values of a program.

use bson::{Bson, RawBsonRef, RawDocument};
use jaq_json::{Map, Num, Val};
use plimsoll_jq::{from_json, to_json};
use serde_json::Value;

use super::{ConversionError, DEPTH_MAX};

/// The value of a document.
///
/// # Errors
///
/// If a value has no exact form.
pub fn read(document: &RawDocument) -> Result<Val, ConversionError> {
    object(document, 0)
}

/// The value of one element.
pub(super) fn one(value: RawBsonRef<'_>, depth: usize) -> Result<Val, ConversionError> {
    Ok(match value {
        RawBsonRef::Double(number) => Val::Num(Num::Float(number)),
        RawBsonRef::String(text) => Val::utf8_str(text.to_owned()),
        RawBsonRef::Boolean(flag) => Val::Bool(flag),
        RawBsonRef::Null => Val::Null,
        RawBsonRef::Int32(number) => Val::Num(Num::from_integral(number)),
        RawBsonRef::Int64(number) => Val::Num(Num::from_integral(number)),
        RawBsonRef::Document(document) => object(document, depth + 1)?,
        RawBsonRef::Array(items) => {
            check_depth(depth + 1)?;
            let items =
                items.into_iter().map(|item| one(item.map_err(ConversionError::malformed)?, depth + 1));
            items.collect::<Result<Vec<_>, _>>()?.into_iter().collect()
        }
        other => from_json(&extended(other)?),
    })
}

fn object(document: &RawDocument, depth: usize) -> Result<Val, ConversionError> {
    check_depth(depth)?;
    let mut map = Map::default();
    let mut odd = None;
    for element in document.iter() {
        let (name, value) = element.map_err(ConversionError::malformed)?;
        let name = name.as_str();
        if map.insert(Val::utf8_str(name.to_owned()), one(value, depth)?).is_some() {
            return Err(ConversionError::Twice(name.to_owned()));
        }
        odd = odd.or_else(|| name.starts_with('$').then(|| name.to_owned()));
    }
    let value = Val::obj(map);
    match odd {
        Some(name) if !matches!(Bson::try_from(to_json(&value)), Ok(Bson::Document(_))) => {
            Err(ConversionError::Ambiguous(name))
        }
        _ => Ok(value),
    }
}

fn check_depth(depth: usize) -> Result<(), ConversionError> {
    if depth < DEPTH_MAX { Ok(()) } else { Err(ConversionError::Deep) }
}

/// A value without JSON type, as extended JSON.
fn extended(value: RawBsonRef<'_>) -> Result<Value, ConversionError> {
    let value = Bson::try_from(value).map_err(ConversionError::malformed)?;
    let json = value.clone().into_relaxed_extjson();
    // A decimal may have several encodings, and its text stands for only one of them.
    match Bson::try_from(json.clone()) {
        Ok(back) if back == value => Ok(json),
        _ => Err(ConversionError::Inexact(value.to_string())),
    }
}
