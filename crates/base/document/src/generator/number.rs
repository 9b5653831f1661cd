//! Parses the generators of numbers: `$number`, `$sequence`, `$int`, `$long`, `$double` and `$decimal`.

use plimsoll_element::kind;

use crate::arguments::{Args, Fields};
use crate::distribution::{Curve, Distribution, Whole};
use crate::error::{Error, suggestion};
use crate::fill::{Decimal, Double, Fill, Sequence};
use crate::node::{Hole, Shape};
use crate::parse::Parser;

/// Reads `$number`: the document's number.
pub(crate) fn number(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    args.fields(&[])?;
    Ok(Shape::Hole(Hole::bare(kind::INT64, 8, Fill::Number)))
}

/// The bounds of an int32.
const INT: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);
/// The bounds of an int64.
const LONG: (i64, i64) = (i64::MIN, i64::MAX);
const TYPES: [&str; 3] = ["int", "long", "double"];

/// Reads `$sequence`, numbers that rise with the document's number:
/// `{start: 0, step: 1, type: long}`.
pub(crate) fn sequence(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["start", "step", "type"])?;
    let name = fields.get("type");
    let (kind, width, sequence) =
        match name.as_ref().map_or(Ok("long"), |args| args.text("int, long or double"))? {
            "int" => {
                let (start, step) = bounds(&fields, INT, Some("`type: long`"))?;
                (kind::INT32, 4, Sequence::Int { start, step })
            }
            "long" => {
                let (start, step) = bounds(&fields, LONG, None)?;
                (kind::INT64, 8, Sequence::Long { start, step })
            }
            "double" => {
                let real = |name, default| fields.get(name).map_or(Ok(default), |args: Args<'_>| args.real());
                (kind::DOUBLE, 8, Sequence::Double { start: real("start", 0.0)?, step: real("step", 1.0)? })
            }
            other => {
                let expected = format!("int, long or double ({})", suggestion(other, &TYPES));
                return Err(fields.expected_at("type", &expected));
            }
        };
    Ok(Shape::Hole(Hole::bare(kind, width, Fill::Sequence(sequence))))
}

fn bounds(fields: &Fields<'_>, limits: (i64, i64), wider: Option<&str>) -> Result<(i64, i64), Error> {
    let read =
        |name, default| fields.get(name).map_or(Ok(default), |args: Args<'_>| args.whole_of(limits, wider));
    Ok((read("start", 0)?, read("step", 1)?))
}

const SETTINGS: [&str; 3] = ["min", "max", "distribution"];

/// Reads `$int`, a random whole number:
/// `{min: 0, max: 2147483647, distribution}`.
pub(crate) fn int(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let whole = Whole::parse(&args.fields(&SETTINGS)?, 0, INT, Some("$long"))?;
    Ok(Shape::Hole(Hole::bare(kind::INT32, 4, Fill::Int(whole))))
}

/// Reads `$long`, a random whole number:
/// `{min: 0, max: 9223372036854775807, distribution}`.
pub(crate) fn long(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let whole = Whole::parse(&args.fields(&SETTINGS)?, 0, LONG, None)?;
    Ok(Shape::Hole(Hole::bare(kind::INT64, 8, Fill::Long(whole))))
}

/// Reads `$double`, a random double:
/// `{min: 0, max: 1, distribution}`.
pub(crate) fn double(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["min", "max", "distribution"])?;
    let bound = |name, default| fields.get(name).map_or(Ok(default), |args: Args<'_>| args.real());
    let (min, max) = (bound("min", 0.0)?, bound("max", 1.0)?);
    if min > max || !(max - min).is_finite() {
        return Err(fields.expected_at("max", &format!("at least min ({min}), with a finite max − min")));
    }
    let double = Double { min, max, curve: curve(&fields, min)?.map(Box::new) };
    Ok(Shape::Hole(Hole::bare(kind::DOUBLE, 8, Fill::Double(double))))
}

fn curve(fields: &Fields<'_>, min: f64) -> Result<Option<Curve>, Error> {
    match Distribution::parse(fields.get("distribution"))? {
        Distribution::Uniform => Ok(None),
        Distribution::Normal { mean, deviation } => Ok(Some(Curve::Normal { mean, deviation })),
        Distribution::Exponential { mean } => Ok(Some(Curve::Exponential { least: min, mean })),
        Distribution::Zipf { .. } => Err(fields.expected_at(
            "distribution",
            "uniform, normal or exponential (zipf is for whole numbers: use $int or $long)",
        )),
    }
}

const PLACES_MAX: i64 = 15;
/// The largest coefficient, so that doubles carry it exactly.
const COEFFICIENT_MAX: f64 = 9e15;

/// Reads `$decimal`, a decimal128 with a fixed number of places, as for money:
/// `{min, max, places: 2, distribution}`.
pub(crate) fn decimal(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
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
        return Err(fields.expected_at("max", &format!("at least min ({min})")));
    }
    let (min, max) = ((min * scale).round() as i64, (max * scale).round() as i64);
    let coefficient = Whole::new(min, max, fields.get("distribution"), scale)?;
    let decimal = Decimal { coefficient, places: places as u64 };
    Ok(Shape::Hole(Hole::bare(kind::DECIMAL, 16, Fill::Decimal(Box::new(decimal)))))
}
