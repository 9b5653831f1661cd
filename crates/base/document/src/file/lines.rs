//! Reads one document of Extended JSON per line. Skips empty lines.

use std::io::{BufRead, BufReader, Read};

use bson::{Bson, Document};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::DOCUMENT_BYTES_MAX;

use super::Records;
use super::error::{Failure, Problem};

/// The longest line, in bytes: Extended JSON takes up to about six times the bytes of BSON.
const LINE_BYTES_MAX: usize = 8 * DOCUMENT_BYTES_MAX;

/// Reads every line up to the end of the input.
pub(super) fn read(input: &mut impl Read, records: &mut Records) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 20, input);
    let (mut line, mut offset, mut record) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let bytes = input
            .by_ref()
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(Failure::Read)?;
        if bytes == 0 {
            return Ok(());
        }
        if !line.trim_ascii().is_empty() {
            push(&line, records).map_err(|problem| Failure::Record { record, offset, problem })?;
            record += 1;
        }
        offset += bytes as u64;
    }
}

fn push(line: &[u8], records: &mut Records) -> Result<(), Problem> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Problem::TooLarge { bytes: line.len() as u64 });
    }
    if line.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::JsonArray);
    }
    let fields: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| Problem::NotJson { reason: not_json(&error) })?;
    if let Some(at) = oversize_number(line) {
        return Err(Problem::OversizeNumber { at });
    }
    let document = Document::try_from(fields).and_then(|document| document.to_vec());
    let document = document.map_err(|_| Problem::NotExtendedJson { reason: not_extended(line) })?;
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(Problem::TooLarge { bytes: document.len() as u64 });
    }
    records.check(&document)
}

/// The place, counted from 1, of the first whole number of valid JSON that has more than 64 bits. The number of digits tells a number
/// apart from most others, so only a long one is parsed.
fn oversize_number(line: &[u8]) -> Option<usize> {
    const DIGITS_MIN: usize = 19;
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        let rest = &line[at..];
        let len = match byte {
            b'"' => string_len(rest),
            b'-' | b'0'..=b'9' => rest.iter().position(|byte| !is_number(*byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        let number = std::str::from_utf8(&rest[..len]).ok().filter(|_| byte != b'"' && len >= DIGITS_MIN);
        let is_whole = |number: &&str| !number.contains(['.', 'e', 'E']);
        if number.filter(is_whole).is_some_and(|number| number.parse::<i64>().is_err()) {
            return Some(at + 1);
        }
        at += len;
    }
    None
}

/// The length of a string with its quotes.
fn string_len(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The reason why a line is no JSON object.
fn not_json(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "it ends within the document".to_owned(),
        Category::Data => "it is no object such as {\"a\": 1}".to_owned(),
        Category::Syntax | Category::Io => format!("its byte {} is wrong", error.column()),
    }
}

/// The reason why a JSON object is not Extended JSON: the path of the innermost invalid value.
fn not_extended(line: &[u8]) -> String {
    let (mut path, mut value) = (Vec::new(), serde_json::from_slice(line).unwrap_or(Value::Null));
    while let Some((key, inner)) = invalid_part(&value) {
        path.push(key);
        value = inner;
    }
    let path = path.join(".");
    match value.as_object().and_then(|fields| fields.keys().find(|key| key.starts_with('$'))) {
        Some(kind) if path.is_empty() => format!("the value of {kind} is invalid"),
        Some(kind) => format!("{path:?}: the value of {kind} is invalid"),
        None if path.is_empty() => "a name of a field has a zero byte".to_owned(),
        None => format!("{path:?}: a name of a field in it has a zero byte"),
    }
}

/// The first part of a value that is not Extended JSON, with its name.
fn invalid_part(value: &Value) -> Option<(String, Value)> {
    let is_invalid = |part: &&Value| Bson::try_from((*part).clone()).is_err();
    match value {
        Value::Object(fields) => {
            let (key, part) = fields.iter().find(|(_, part)| is_invalid(part))?;
            Some((key.clone(), part.clone()))
        }
        Value::Array(items) => {
            let (at, part) = items.iter().enumerate().find(|(_, part)| is_invalid(part))?;
            Some((at.to_string(), part.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_of_more_than_64_bits_is_found_outside_of_texts() {
        for (line, at) in [
            (r#"{"a": 9223372036854775807, "b": -9223372036854775808}"#, None),
            (r#"{"a": 9223372036854775808}"#, Some(7)),
            (r#"{"a": [1, -9223372036854775809]}"#, Some(11)),
            (r#"{"a": "9223372036854775808", "\"9223372036854775808\\": 1}"#, None),
            (
                r#"{"a": 9223372036854775808.0, "b": 92233720368547758080e3, "c": 0.9223372036854775808}"#,
                None,
            ),
            (r#"{"a\\": 18446744073709551616}"#, Some(9)),
        ] {
            assert_eq!(oversize_number(line.as_bytes()), at, "{line}");
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}
