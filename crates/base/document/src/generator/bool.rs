//! Parses `$bool`: true or false.

use crate::arguments::Args;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{Hole, Shape};
use crate::parse::Parser;
use crate::random::Odds;

/// Reads `{probability: 0.5}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let probability = args.fields(&["probability"])?.get("probability");
    let odds = Odds::new(probability.map_or(Ok(0.5), |args| args.probability())?);
    Ok(Shape::Hole(Hole::bare(0x08, 1, Fill::Bool(odds))))
}
