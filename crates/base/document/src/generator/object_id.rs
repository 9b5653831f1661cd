//! `$object_id`: a random ObjectId.

use crate::error::Error;
use crate::node::{Hole, Shape};
use crate::parse::{Args, Parser};

use super::Fill;

/// Reads `{}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    Ok(Shape::Hole(Hole::bare(0x07, 12, Fill::Bytes)))
}
