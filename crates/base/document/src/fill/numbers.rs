//! Generates numbers and dates.

use crate::distribution::{Curve, Whole};
use crate::random::{Draw, unit};

/// The bias of the exponent in IEEE 754 decimal128.
const BIAS: u64 = 6176;

/// start + number × step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sequence {
    /// An int32; wraps.
    Int { start: i64, step: i64 },
    /// An int64; wraps.
    Long { start: i64, step: i64 },
    /// A double.
    Double { start: f64, step: f64 },
}

impl Sequence {
    /// Writes the number, four or eight bytes wide.
    #[inline]
    pub(crate) fn write(&self, draw: &Draw<'_>, hole: &mut [u8]) {
        let nth = |start: i64, step: i64| start.wrapping_add(step.wrapping_mul(draw.number as i64));
        match *self {
            Self::Int { start, step } => hole.copy_from_slice(&(nth(start, step) as i32).to_le_bytes()),
            Self::Long { start, step } => hole.copy_from_slice(&nth(start, step).to_le_bytes()),
            Self::Double { start, step } => {
                hole.copy_from_slice(&(start + step * draw.number as f64).to_le_bytes());
            }
        }
    }
}

/// A random double from `min` to `max`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Double {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) curve: Option<Box<Curve>>,
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

/// A random decimal: a coefficient and a number of places.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decimal {
    pub(crate) coefficient: Whole,
    pub(crate) places: u64,
}

impl Decimal {
    /// The number in the binary integer encoding of IEEE 754-2008, section 3.5.2, least byte first, as BSON stores it.
    #[inline]
    pub(crate) fn value(&self, draw: &Draw<'_>) -> [u8; 16] {
        let coefficient = self.coefficient.value(draw);
        let sign = u64::from(coefficient < 0) << 63;
        let high = sign | ((BIAS - self.places) << 49);
        ((u128::from(high) << 64) | u128::from(coefficient.unsigned_abs())).to_le_bytes()
    }
}

/// A time: start + number × step + a part of `within`, in milliseconds since the epoch; wraps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Date {
    pub(crate) start_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) within_ms: Whole,
}

impl Date {
    /// The time, in milliseconds since the epoch.
    #[inline]
    pub(crate) fn value(&self, draw: &Draw<'_>) -> i64 {
        let stepped = self.start_ms.wrapping_add(self.step_ms.wrapping_mul(draw.number as i64));
        stepped.wrapping_add(self.within_ms.value(draw))
    }
}
