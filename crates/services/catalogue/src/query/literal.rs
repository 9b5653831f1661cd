//! Translates values of a query. No value becomes an operator.

use bson::{Bson, Document};
use serde_json::{Number, Value};

use super::bounds::DEPTH_MAX;
use super::unknown;
use crate::Refusal;
use crate::moment;

/// Whether texts that look like dates become dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dates {
    /// Such texts become dates.
    Read,
    /// Such texts stay texts.
    Keep,
}

/// A value without parts, or `None`.
pub(super) fn scalar(value: &Value, dates: Dates) -> Option<Bson> {
    Some(match value {
        Value::Null => Bson::Null,
        Value::Bool(truth) => Bson::Boolean(*truth),
        Value::Number(number) => self::number(number),
        Value::String(text) => self::text(text, dates),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// A number as MongoDB compares it; one beyond 64 bits is a double.
pub(crate) fn number(number: &Number) -> Bson {
    match number.as_i64() {
        Some(whole) => Bson::Int64(whole),
        None => Bson::Double(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn text(text: &str, dates: Dates) -> Bson {
    let date = if dates == Dates::Read { moment::parse(text) } else { None };
    date.map_or_else(|| Bson::String(text.to_owned()), Bson::DateTime)
}

/// A whole value to compare with, whose keys are plain names.
///
/// # Errors
/// A key begins with `$`, or the value is too deep.
pub(super) fn whole(value: &Value, dates: Dates, depth: u32) -> Result<Bson, Refusal> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| whole(item, dates, depth + 1));
            Ok(Bson::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(fields) => {
            let mut document = Document::new();
            for (name, value) in fields {
                if name.split('.').any(|part| part.starts_with('$')) || name.contains('\0') {
                    return Err(unknown(name));
                }
                document.insert(name, whole(value, dates, depth + 1)?);
            }
            Ok(document.into())
        }
        other => Ok(scalar(other, dates).unwrap_or(Bson::Null)),
    }
}

/// The refusal of a query that is nested too deeply.
pub(super) fn too_deep() -> Refusal {
    Refusal::bad(format!("the filter is nested more than {DEPTH_MAX} levels deep: simplify it"))
}
