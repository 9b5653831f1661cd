//! Parses `$decimal`: a decimal128 with a fixed number of places, as for money.

use crate::arguments::Args;
use crate::distribution::Whole;
use crate::error::Error;
use crate::fill::{Decimal, Fill};
use crate::node::{Hole, Shape};
use crate::parse::Parser;

const PLACES_MAX: i64 = 15;
/// The largest coefficient, so that doubles carry it exactly.
const COEFFICIENT_MAX: f64 = 9e15;

/// Reads `{min, max, places: 2, distribution}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["min", "max", "places", "distribution"])?;
    let places = fields.get("places").map_or(Ok(2), |args| {
        args.whole_within(0, PLACES_MAX, &format!("a whole number from 0 to {PLACES_MAX}"))
    })?;
    let scale = (0..places).fold(1.0, |scale, _| scale * 10.0);
    let limit = COEFFICIENT_MAX / scale;
    let expected = format!("a number from {} to {limit}", -limit);
    let bound = |name| fields.need(name, "write {min: 0, max: 100}")?.real_within(-limit, limit, &expected);
    let (min, max) = (bound("min")?, bound("max")?);
    if min > max {
        return Err(fields.expected_at("max", &format!("at least min, which is {min}")));
    }
    let (min, max) = ((min * scale).round() as i64, (max * scale).round() as i64);
    let coefficient = Whole::new(min, max, fields.get("distribution"), scale)?;
    let decimal = Decimal { coefficient, places: places as u64 };
    Ok(Shape::Hole(Hole::bare(0x13, 16, Fill::Decimal(Box::new(decimal)))))
}
