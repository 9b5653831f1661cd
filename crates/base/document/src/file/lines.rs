//! Reads one document of Extended JSON per line. Skips empty lines.

use std::io::{BufRead, BufReader, Read};

use bson::{Bson, Document};
use plimsoll_element::json::oversize_number;
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
