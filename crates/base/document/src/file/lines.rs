//! Reads one document of Extended JSON per line. Skips empty lines.

use std::io::{BufRead, BufReader, Read};

use bson::Document;
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
        serde_json::from_slice(line).map_err(|error| Problem::NotJson { reason: error.to_string() })?;
    let document = Document::try_from(fields).and_then(|document| document.to_vec());
    let document = document.map_err(|error| Problem::NotExtendedJson { reason: error.to_string() })?;
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(Problem::TooLarge { bytes: document.len() as u64 });
    }
    records.check(&document)
}
