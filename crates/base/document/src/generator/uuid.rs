//! `$uuid` with an empty object: a random UUID of version 4.

use crate::error::Error;
use crate::node::{BINARY, Hole, Shape};
use crate::parse::{Args, Parser};
use crate::random::Words;

use super::Fill;

/// The binary subtype of a UUID.
const SUBTYPE: u8 = 4;

/// Reads `{}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    let before = vec![16, 0, 0, 0, SUBTYPE];
    Ok(Shape::Hole(Hole { kind: BINARY, before, fill: Fill::Uuid, width: 16, after: Vec::new() }))
}

/// Fills sixteen bytes: random, with version 4 and the variant of RFC 9562, section 5.4.
#[inline]
pub(crate) fn fill(words: &mut Words, hole: &mut [u8]) {
    super::fill_bytes(words, hole);
    hole[6] = (hole[6] & 0x0F) | 0x40;
    hole[8] = (hole[8] & 0x3F) | 0x80;
}
