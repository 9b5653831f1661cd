//! Converts the result of a program back to BSON.

use std::collections::HashMap;

use bson::raw::{CString, RawArrayBuf};
use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use jaq_json::{Map, Num, Val};
use plimsoll_jq::to_json;

use super::read::one;
use super::{ConversionError, DEPTH_MAX};

/// The document of a value. `was` is the document that the program received: unchanged values keep its bytes.
///
/// # Errors
///
/// If a value has no BSON form.
pub fn write(value: &Val, was: &RawDocument) -> Result<RawDocumentBuf, ConversionError> {
    match element(value, Some(RawBsonRef::Document(was)), 0)? {
        RawBson::Document(document) => Ok(document),
        _ => Err(ConversionError::NoDocument),
    }
}

/// The BSON of a value in the place of `was`; `None`: the place is new.
fn element(value: &Val, was: Option<RawBsonRef<'_>>, depth: usize) -> Result<RawBson, ConversionError> {
    if depth > DEPTH_MAX {
        return Err(ConversionError::Deep);
    }
    Ok(match value {
        Val::Null => RawBson::Null,
        Val::Bool(flag) => RawBson::Boolean(*flag),
        Val::Num(number) => self::number(number, was)?,
        Val::TStr(text) => {
            RawBson::String(std::str::from_utf8(text).map_err(|_| ConversionError::Text)?.to_owned())
        }
        Val::BStr(bytes) => RawBson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        }),
        Val::Arr(items) => RawBson::Array(array(items, was, depth)?),
        Val::Obj(fields) => object(value, fields, was, depth)?,
    })
}

fn number(number: &Num, was: Option<RawBsonRef<'_>>) -> Result<RawBson, ConversionError> {
    let refused = || ConversionError::Number(number.to_string());
    Ok(match number {
        Num::Float(value) => RawBson::Double(*value),
        Num::Dec(text) => RawBson::Double(text.parse().map_err(|_| refused())?),
        whole => {
            let whole = whole.as_isize().and_then(|whole| i64::try_from(whole).ok()).ok_or_else(refused)?;
            match (was, i32::try_from(whole)) {
                (Some(RawBsonRef::Int64(before)), _) if before == whole => RawBson::Int64(whole),
                (_, Ok(small)) => RawBson::Int32(small),
                (_, Err(_)) => RawBson::Int64(whole),
            }
        }
    })
}

fn array(items: &[Val], was: Option<RawBsonRef<'_>>, depth: usize) -> Result<RawArrayBuf, ConversionError> {
    let before = match was {
        Some(RawBsonRef::Array(before)) => {
            before.into_iter().collect::<Result<Vec<_>, _>>().map_err(ConversionError::malformed)?
        }
        _ => Vec::new(),
    };
    let mut array = RawArrayBuf::new();
    for (at, item) in items.iter().enumerate() {
        array.push(element(item, before.get(at).copied(), depth + 1)?);
    }
    Ok(array)
}

fn object(
    value: &Val,
    fields: &Map,
    was: Option<RawBsonRef<'_>>,
    depth: usize,
) -> Result<RawBson, ConversionError> {
    let odd = fields.keys().any(|name| matches!(name, Val::TStr(name) if name.starts_with(b"$")));
    if odd {
        if let Some(was) = was.filter(|was| one(*was, depth).is_ok_and(|before| before == *value)) {
            return Ok(was.into());
        }
        let json = to_json(value);
        let words = json.to_string();
        let meant = Bson::try_from(json).map_err(|_| ConversionError::Extended(brief(&words)))?;
        if !matches!(meant, Bson::Document(_)) {
            return RawBson::try_from(meant).map_err(|_| ConversionError::Extended(brief(&words)));
        }
    }
    let before = match was {
        Some(RawBsonRef::Document(before)) => named(before)?,
        _ => HashMap::new(),
    };
    let mut document = RawDocumentBuf::new();
    for (name, value) in fields {
        let name = field(name)?;
        let value = element(value, before.get(name.as_str()).copied(), depth + 1)?;
        document.append(name, value);
    }
    Ok(RawBson::Document(document))
}

fn named(document: &RawDocument) -> Result<HashMap<&str, RawBsonRef<'_>>, ConversionError> {
    let elements = document.iter().map(|element| element.map(|(name, value)| (name.as_str(), value)));
    elements.collect::<Result<_, _>>().map_err(ConversionError::malformed)
}

fn field(name: &Val) -> Result<CString, ConversionError> {
    let text = match name {
        Val::TStr(text) => std::str::from_utf8(text).ok(),
        _ => None,
    };
    let name = text.and_then(|text| CString::try_from(text).ok());
    name.ok_or_else(|| {
        ConversionError::Name(brief(
            &text.map_or_else(|| "of another type".to_owned(), |text| format!("{text:?}")),
        ))
    })
}

/// The beginning of a result, which may contain a whole payload.
fn brief(words: &str) -> String {
    words.chars().take(100).collect()
}
