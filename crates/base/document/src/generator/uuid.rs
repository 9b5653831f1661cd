//! Parses `$uuid` with an empty object: a random UUID of version 4.

use crate::arguments::Args;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{BINARY, Hole, Shape};
use crate::parse::Parser;

/// The binary subtype of a UUID.
const SUBTYPE: u8 = 4;

/// Reads `{}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    let before = vec![16, 0, 0, 0, SUBTYPE];
    Ok(Shape::Hole(Hole { kind: BINARY, before, fill: Fill::Uuid, width: 16, after: Vec::new() }))
}
