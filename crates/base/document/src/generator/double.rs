//! Parses `$double`: a random double.

use crate::arguments::{Args, Fields};
use crate::distribution::{Curve, Distribution};
use crate::error::Error;
use crate::fill::{Double, Fill};
use crate::node::{Hole, Shape};
use crate::parse::Parser;

/// Reads `{min: 0, max: 1, distribution}`.
pub(crate) fn parse(_: &mut Parser<'_>, args: &Args<'_>) -> Result<Shape, Error> {
    let fields = args.fields(&["min", "max", "distribution"])?;
    let bound = |name, default| fields.get(name).map_or(Ok(default), |args: Args<'_>| args.real());
    let (min, max) = (bound("min", 0.0)?, bound("max", 1.0)?);
    if min > max || !(max - min).is_finite() {
        return Err(
            fields.expected_at("max", &format!("at least min, which is {min}, and not too far from it"))
        );
    }
    let double = Double { min, max, curve: curve(&fields, min)?.map(Box::new) };
    Ok(Shape::Hole(Hole::bare(0x01, 8, Fill::Double(double))))
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
