//! Parses `$text`: lower-case letters and spaces.

use crate::arguments::Args;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{Hole, Shape};
use crate::parse::Parser;
use crate::size::Lengths;

/// Reads `{bytes: n}` or `{min, max}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let lengths = Lengths::parse(args, "bytes")?;
    Ok(match lengths.exact().filter(|bytes| *bytes <= crate::DOCUMENT_BYTES_MAX) {
        Some(bytes) => Shape::Hole(Hole::string("", bytes, Fill::Text)),
        None => Shape::Text(lengths),
    })
}
