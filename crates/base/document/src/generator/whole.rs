//! Parses `$int` and `$long`: random whole numbers.

use crate::arguments::Args;
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::Fill;
use crate::node::{Hole, Shape};
use crate::parse::Parser;

const SETTINGS: [&str; 3] = ["min", "max", "distribution"];

/// Reads `{min: 0, max: 2147483647, distribution}`.
pub(crate) fn parse_int(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let bounds = (i64::from(i32::MIN), i64::from(i32::MAX));
    let whole = Whole::parse(&args.fields(&SETTINGS)?, 0, bounds)?;
    Ok(Shape::Hole(Hole::bare(0x10, 4, Fill::Int(whole))))
}

/// Reads `{min: 0, max: 9223372036854775807, distribution}`.
pub(crate) fn parse_long(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let whole = Whole::parse(&args.fields(&SETTINGS)?, 0, (i64::MIN, i64::MAX))?;
    Ok(Shape::Hole(Hole::bare(0x12, 8, Fill::Long(whole))))
}
