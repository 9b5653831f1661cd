//! Distributes random numbers between their bounds.

mod normal;

mod whole;

mod zipf;

pub(crate) use whole::Whole;
pub(crate) use zipf::Zipf;

use crate::arguments::Args;
use crate::arithmetic::ln;
use crate::error::Error;
use crate::random::unit;

/// An unbounded distribution; callers clamp its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Curve {
    /// The bell curve.
    Normal { mean: f64, deviation: f64 },
    /// Falls off exponentially from `least`; `mean` is the mean distance from it.
    Exponential { least: f64, mean: f64 },
}

impl Curve {
    /// The value for a random word.
    pub(crate) fn value(&self, word: u64) -> f64 {
        match *self {
            Self::Normal { mean, deviation } => mean + deviation * normal::quantile(unit(word)),
            Self::Exponential { least, mean } => least - mean * ln(unit(word)),
        }
    }
}

/// A parsed distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    /// All values are equally likely.
    Uniform,
    /// The value of rank k has a weight of k^−exponent.
    Zipf { exponent: f64, order: Order },
    /// The bell curve, clamped.
    Normal { mean: f64, deviation: f64 },
    /// Falls off exponentially from the least value.
    Exponential { mean: f64 },
}

/// The position of the frequent values of a Zipf distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// The least value is the most frequent.
    Ranked,
    /// The frequent values are scattered over the range.
    Scrambled,
}

const NAMES: [&str; 4] = ["uniform", "zipf", "normal", "exponential"];
const FORMS: &str = "uniform, {zipf: {exponent: 0.99}}, {normal: {mean, deviation}} or {exponential: {mean}}";
/// The largest exponent of a Zipf distribution.
pub(crate) const EXPONENT_MAX: f64 = 100.0;

impl Distribution {
    /// Reads a `distribution`; uniform when it is not given.
    pub(crate) fn parse(args: Option<Args<'_>>) -> Result<Self, Error> {
        let Some(args) = args else { return Ok(Self::Uniform) };
        if args.value().as_str() == Some("uniform") {
            return Ok(Self::Uniform);
        }
        let fields = args.fields_or(&NAMES, FORMS)?;
        match fields.only() {
            Some(("zipf", args)) => Self::parse_zipf(&args),
            Some(("normal", args)) => Self::parse_normal(&args),
            Some(("exponential", args)) => Self::parse_exponential(&args),
            _ => Err(args.expected(FORMS)),
        }
    }

    fn parse_zipf(args: &Args<'_>) -> Result<Self, Error> {
        let fields = args.fields(&["exponent", "scrambled"])?;
        let exponent = match fields.get("exponent") {
            Some(exponent) => {
                exponent.real_within(f64::MIN_POSITIVE, EXPONENT_MAX, "a number above 0 and up to 100")?
            }
            None => 0.99,
        };
        let scrambled = fields.get("scrambled").map_or(Ok(false), |args| args.truth())?;
        let order = if scrambled { Order::Scrambled } else { Order::Ranked };
        Ok(Self::Zipf { exponent, order })
    }

    fn parse_normal(args: &Args<'_>) -> Result<Self, Error> {
        let fields = args.fields(&["mean", "deviation"])?;
        let mean = fields.need("mean", "write {mean: 50, deviation: 10}")?.real()?;
        let deviation = fields.need("deviation", "write {mean: 50, deviation: 10}")?;
        Ok(Self::Normal { mean, deviation: deviation.real_within(0.0, f64::MAX, "a number of 0 or more")? })
    }

    fn parse_exponential(args: &Args<'_>) -> Result<Self, Error> {
        let fields = args.fields(&["mean"])?;
        let mean = fields.need("mean", "write {mean: 10}")?;
        Ok(Self::Exponential { mean: mean.real_within(0.0, f64::MAX, "a number of 0 or more")? })
    }
}
