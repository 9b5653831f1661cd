//! Parses `$number`: the document's number.

use crate::arguments::Args;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{Hole, Shape};
use crate::parse::Parser;

/// Reads `{}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    Ok(Shape::Hole(Hole::bare(0x12, 8, Fill::Number)))
}
