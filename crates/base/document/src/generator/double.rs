//! `$double`: a random double.

use crate::distribution::{Curve, Distribution};
use crate::error::Error;
use crate::node::{Hole, Shape};
use crate::parse::{Args, Fields, Parser};
use crate::random::{Draw, unit};

use super::Fill;

/// A random double from `min` to `max`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Double {
    min: f64,
    max: f64,
    curve: Option<Box<Curve>>,
}

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

impl Double {
    /// The number.
    #[inline]
    pub(crate) fn value(&self, draw: &Draw<'_>) -> f64 {
        let word = draw.first();
        let value = match &self.curve {
            None => self.min + unit(word) * (self.max - self.min),
            Some(curve) => curve.value(word),
        };
        value.clamp(self.min, self.max)
    }
}
