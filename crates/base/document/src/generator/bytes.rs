//! `$bytes`: random binary data.

use crate::error::Error;
use crate::node::{BINARY, Hole, Shape};
use crate::parse::{Args, Parser};
use crate::random::Words;

use super::{Fill, Lengths};

/// Reads `{size: n}` or `{min, max}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let lengths = Lengths::parse(args, "size")?;
    Ok(match lengths.exact().filter(|size| *size <= crate::DOCUMENT_BYTES_MAX) {
        Some(size) => {
            let mut before = (size as u32).to_le_bytes().to_vec();
            before.push(0);
            Shape::Hole(Hole { kind: BINARY, before, fill: Fill::Bytes, width: size, after: Vec::new() })
        }
        None => Shape::Bytes(lengths),
    })
}

/// Fills bytes with random words.
#[inline]
pub(crate) fn fill(words: &mut Words, hole: &mut [u8]) {
    let mut chunks = hole.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&words.next().to_le_bytes());
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&words.next().to_le_bytes()[..rest.len()]);
}
