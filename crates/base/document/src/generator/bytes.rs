//! Parses `$bytes`: random binary data.

use crate::arguments::Args;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{BINARY, Hole, Shape};
use crate::parse::Parser;
use crate::size::Lengths;

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
