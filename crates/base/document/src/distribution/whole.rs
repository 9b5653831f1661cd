//! Draws whole numbers between two bounds.

use crate::arguments::{Args, Fields};
use crate::error::Error;
use crate::random::{Draw, below};

use super::zipf::Zipf;
use super::{Curve, Distribution};

/// The largest number of values in a Zipf distribution.
const ZIPF_VALUES_MAX: u64 = 1 << 48;

/// A random whole number from `least` to `least + span − 1`; a span of 0 stands for 2^64.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whole {
    least: i64,
    span: u64,
    skew: Option<Box<Skew>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Skew {
    Zipf(Zipf),
    Curve(Curve),
}

impl Whole {
    /// Reads `min` (`least` if it is not given), `max` (the upper bound if it is not given) and
    /// `distribution`. Both numbers lie within `bounds`. `wider` names the generator of larger numbers.
    pub(crate) fn parse(
        fields: &Fields<'_>,
        least: i64,
        bounds: (i64, i64),
        wider: Option<&str>,
    ) -> Result<Self, Error> {
        let bound = |name: &str, default| match fields.get(name) {
            Some(args) => args.whole_of(bounds, wider),
            None => Ok(default),
        };
        let (min, max) = (bound("min", least)?, bound("max", bounds.1)?);
        if min > max {
            return Err(fields.expected_at("max", &format!("at least min ({min})")));
        }
        Self::new(min, max, fields.get("distribution"), 1.0)
    }

    /// A number from `min` to `max` (at least `min`) with this distribution, whose means and deviations are multiplied by
    /// `scale`.
    pub(crate) fn new(min: i64, max: i64, distribution: Option<Args<'_>>, scale: f64) -> Result<Self, Error> {
        let span = (max.wrapping_sub(min) as u64).wrapping_add(1);
        let skew = match Distribution::parse(distribution.clone())? {
            Distribution::Uniform => None,
            Distribution::Zipf { exponent, order } => {
                if let Some(args) = distribution.filter(|_| span == 0 || span > ZIPF_VALUES_MAX) {
                    return Err(args.expected("a range of at most 2^48 values for zipf"));
                }
                Some(Skew::Zipf(Zipf::new(span, exponent, order)))
            }
            Distribution::Normal { mean, deviation } => {
                Some(Skew::Curve(Curve::Normal { mean: mean * scale, deviation: deviation * scale }))
            }
            Distribution::Exponential { mean } => {
                Some(Skew::Curve(Curve::Exponential { least: min as f64, mean: mean * scale }))
            }
        };
        Ok(Self { least: min, span, skew: skew.map(Box::new) })
    }

    /// A number from `min` to `max`, all equally likely.
    pub(crate) fn uniform(min: i64, max: i64) -> Self {
        Self { least: min, span: (max.wrapping_sub(min) as u64).wrapping_add(1), skew: None }
    }

    /// The number for a draw.
    #[inline]
    pub(crate) fn value(&self, draw: &Draw<'_>) -> i64 {
        match &self.skew {
            None => self.least.wrapping_add(below(draw.first(), self.span) as i64),
            Some(skew) => self.skewed(skew, draw),
        }
    }

    fn skewed(&self, skew: &Skew, draw: &Draw<'_>) -> i64 {
        match skew {
            Skew::Zipf(zipf) => self.least.wrapping_add(zipf.rank(&mut draw.words()) as i64),
            Skew::Curve(curve) => {
                (curve.value(draw.first()).round() as i64).clamp(self.least, self.greatest())
            }
        }
    }

    /// The greatest number.
    pub(crate) fn greatest(&self) -> i64 {
        self.least.wrapping_add(self.span.wrapping_sub(1) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    fn values(whole: &Whole) -> Vec<i64> {
        let identity = Identity::default();
        (0..2000)
            .map(|place| {
                whole.value(&Draw { place: crate::random::base(3, place), number: 0, identity: &identity })
            })
            .collect()
    }

    fn skewed(distribution: &str) -> Vec<i64> {
        let value = serde_json::from_str(distribution).unwrap();
        values(&Whole::new(-100, 100, Some(Args::new("d".to_owned(), &value)), 1.0).unwrap())
    }

    #[test]
    fn every_value_of_a_small_range_occurs() {
        let mut seen = values(&Whole::uniform(-2, 2));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [-2, -1, 0, 1, 2]);
    }

    #[test]
    fn all_of_int64_is_a_valid_range() {
        let seen = values(&Whole::uniform(i64::MIN, i64::MAX));
        assert!(
            seen.iter().any(|value| *value < i64::MIN / 2) && seen.iter().any(|value| *value > i64::MAX / 2)
        );
    }

    #[test]
    fn a_normal_distribution_has_its_mean_and_is_clamped() {
        let seen = skewed(r#"{"normal": {"mean": 50, "deviation": 40}}"#);
        let mean = seen.iter().sum::<i64>() as f64 / seen.len() as f64;
        assert!((45.0..50.0).contains(&mean), "{mean}");
        assert_eq!(seen.iter().max(), Some(&100));
    }

    #[test]
    fn an_exponential_distribution_counts_from_the_least_value() {
        let seen = skewed(r#"{"exponential": {"mean": 10}}"#);
        let mean = seen.iter().sum::<i64>() as f64 / seen.len() as f64;
        assert!((-91.0..-89.0).contains(&mean), "{mean}");
        assert!(seen.iter().all(|value| (-100..=100).contains(value)));
    }
}
