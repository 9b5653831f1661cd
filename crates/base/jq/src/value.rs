//! Converts between JSON and values of a program.

use jaq_json::{Num, Val, read};
use serde_json::Value;

use crate::program::Error;

/// The deepest nesting of a text of JSON: the parser needs stack for each level.
const DEPTH_MAX: usize = 256;

/// A text of JSON as a value.
///
/// # Errors
///
/// If it is invalid, or nested too deep.
pub fn parse(json: &[u8]) -> Result<Val, Error> {
    if depth(json) > DEPTH_MAX {
        return Err(Error::Input(format!("it is nested deeper than {DEPTH_MAX} levels")));
    }
    read::parse_single(json).map_err(|error| Error::Input(error.to_string()))
}

/// The deepest nesting of brackets outside of texts.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut most, mut text, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match (text, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => text = !text,
            (false, _, b'[' | b'{') => depth += 1,
            (false, _, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// JSON as a value.
pub fn from_json(json: &Value) -> Val {
    match json {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Val::Num(Num::from_integral(whole)),
            None => Val::Num(Num::Float(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => items.iter().map(from_json).collect(),
        Value::Object(fields) => Val::obj(
            fields.iter().map(|(name, value)| (Val::utf8_str(name.clone()), from_json(value))).collect(),
        ),
    }
}

/// A value as JSON. A value without JSON form becomes null.
pub fn to_json(value: &Val) -> Value {
    match value {
        Val::Null | Val::BStr(_) => Value::Null,
        Val::Bool(flag) => Value::from(*flag),
        Val::Num(Num::Float(number)) => Value::from(*number),
        Val::Num(Num::Dec(text)) => text.parse::<f64>().map_or(Value::Null, Value::from),
        Val::Num(whole) => whole.as_isize().map_or(Value::Null, |whole| Value::from(whole as i64)),
        Val::TStr(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
        Val::Arr(items) => items.iter().map(to_json).collect(),
        Val::Obj(fields) => {
            let name = |name: &Val| match name {
                Val::TStr(text) => String::from_utf8_lossy(text).into_owned(),
                other => other.to_string(),
            };
            Value::Object(fields.iter().map(|(key, value)| (name(key), to_json(value))).collect())
        }
    }
}
