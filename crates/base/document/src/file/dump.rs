//! Reads a dump: BSON documents, one after another.

use std::io::{ErrorKind, Read};

use crate::DOCUMENT_BYTES_MAX;

use super::Records;
use super::error::{Failure, Problem};

/// Reads every document up to the end of the input.
pub(super) fn read(input: &mut impl Read, records: &mut Records) -> Result<(), Failure> {
    let mut document = Vec::new();
    let mut offset = 0;
    for record in 0.. {
        let fail = |problem| Failure::Record { record, offset, problem };
        let Some(length) = length(input, fail)? else { break };
        document.clear();
        document.extend_from_slice(&length.to_le_bytes());
        let bytes = usize::try_from(length).ok().filter(|bytes| (5..=DOCUMENT_BYTES_MAX).contains(bytes));
        let bytes = bytes.ok_or_else(|| fail(Problem::Length { length }))?;
        input.take(bytes as u64 - 4).read_to_end(&mut document).map_err(Failure::Read)?;
        if document.len() < bytes {
            return Err(fail(Problem::Truncated));
        }
        records.check(&document).map_err(fail)?;
        offset += bytes as u64;
    }
    Ok(())
}

/// The next document's length; `None` at the end of the input.
fn length(input: &mut impl Read, fail: impl Fn(Problem) -> Failure) -> Result<Option<i32>, Failure> {
    let mut bytes = [0; 4];
    let mut have = 0;
    while have < bytes.len() {
        match input.read(&mut bytes[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(fail(Problem::Truncated)),
            Ok(more) => have += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Read(error)),
        }
    }
    Ok(Some(i32::from_le_bytes(bytes)))
}
