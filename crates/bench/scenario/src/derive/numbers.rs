//! Sums up numbers, and fits ranges and distributions to them.

use serde_json::{Map, Value, json};

/// The least number of values for a distribution other than uniform.
const FIT_MIN: u64 = 20;
/// A range has at most this many steps of its grid.
const STEPS: f64 = 20.0;
/// A single value has at most this many steps between zero and itself.
const STEPS_OF_ONE: f64 = 100.0;
/// The largest bound of a range of doubles: the difference of two bounds must be finite.
const REAL_MAX: f64 = 7e307;

/// Count, range, mean and deviation of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Numbers {
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    /// The sum of the squared distances from the mean (Welford's method).
    squares: f64,
}

impl Numbers {
    /// Adds a number; one that is not finite is left out.
    pub(super) fn add(&mut self, number: f64) {
        if !number.is_finite() {
            return;
        }
        let number = number.clamp(-REAL_MAX, REAL_MAX);
        self.min = if self.count == 0 { number } else { self.min.min(number) };
        self.max = if self.count == 0 { number } else { self.max.max(number) };
        self.count += 1;
        let before = number - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (number - self.mean);
    }

    fn deviation(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).max(0.0).sqrt()
    }

    /// The range, rounded outwards to a coarse grid: no bound except zero is a number of the collection.
    /// `finest` is the smallest step of the grid.
    pub(super) fn range(&self, finest: f64) -> (f64, f64) {
        let (step, digits) = self.grid(finest);
        let tidy = |number: f64| format!("{number:.digits$}").parse().unwrap_or(number);
        let (first, last) = ((self.min / step).floor(), (self.max / step).ceil());
        let (low, high): (f64, f64) = (tidy(first * step), tidy(last * step));
        let shows = |bound: f64, extreme: f64| bound == extreme && extreme != 0.0;
        let low = if shows(low, self.min) { tidy((first - 1.0) * step) } else { low };
        let high = if shows(high, self.max) { tidy((last + 1.0) * step) } else { high };
        (low, high)
    }

    /// The step of the grid: 1, 2 or 5 times a power of ten, and its decimal places.
    fn grid(&self, finest: f64) -> (f64, usize) {
        let width = self.max - self.min;
        let least = if width > 0.0 { width / STEPS } else { self.max.abs() / STEPS_OF_ONE };
        let exponent = if least > 0.0 { least.log10().floor() } else { 0.0 };
        let power = 10_f64.powf(exponent);
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least).unwrap_or(10.0);
        ((factor * power).max(finest), (-exponent).clamp(0.0, 300.0) as usize)
    }

    /// A uniform range of whole numbers with the same mean and deviation, within the real range.
    pub(super) fn even(&self) -> (u64, u64) {
        let half = (self.deviation() * 3_f64.sqrt()).min(self.mean - self.min).min(self.max - self.mean);
        let (low, high) = ((self.mean - half).round().max(0.0), (self.mean + half).round().max(0.0));
        (low as u64, high as u64)
    }

    /// The mean as a whole number.
    pub(super) fn middle(&self) -> u64 {
        self.mean.round().max(0.0) as u64
    }

    /// The distribution as a template writes it. `None` if uniform fits, or if the numbers are too few or all
    /// equal. `low` is the lower bound in the template.
    pub(super) fn distribution(&self, low: f64) -> Option<Value> {
        let (width, deviation) = (self.max - self.min, self.deviation());
        let uniform = width / 12_f64.sqrt();
        let is_even = (deviation - uniform).abs() < 0.15 * uniform
            && (self.mean - self.min.midpoint(self.max)).abs() < 0.1 * width;
        if self.count < FIT_MIN || deviation == 0.0 || !deviation.is_finite() || is_even {
            return None;
        }
        let above = self.mean - self.min;
        if above < 0.3 * width && (above - deviation).abs() < 0.25 * deviation {
            return Some(json!({"exponential": {"mean": rounded(self.mean - low)}}));
        }
        Some(json!({"normal": {"mean": rounded(self.mean), "deviation": rounded(deviation)}}))
    }
}

/// A number with three significant digits.
pub(super) fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

/// The settings `min` and `max`, with a distribution if one is given.
pub(super) fn settings(min: Value, max: Value, distribution: Option<Value>) -> Map<String, Value> {
    let bounds = [("min".to_owned(), min), ("max".to_owned(), max)];
    bounds.into_iter().chain(distribution.map(|it| ("distribution".to_owned(), it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = f64>) -> Numbers {
        let mut all = Numbers::default();
        numbers.into_iter().for_each(|number| all.add(number));
        all
    }

    #[test]
    fn a_range_is_rounded_outwards_and_shows_no_extreme_value() {
        for (min, max, finest, expected) in [
            (31_234.0, 187_654.0, 1.0, (30_000.0, 190_000.0)),
            (1990.0, 2026.0, 1.0, (1988.0, 2028.0)),
            (0.0, 1.0, 1.0, (0.0, 2.0)),
            (0.123, 0.987, 0.0, (0.1, 1.0)),
            (-7.0, -7.0, 1.0, (-8.0, -6.0)),
            (12_345.0, 12_345.0, 1.0, (12_200.0, 12_400.0)),
            (0.0, 0.0, 0.0, (0.0, 0.0)),
            (10_000.0, 11_999.0, 1.0, (9_900.0, 12_000.0)),
        ] {
            assert_eq!(of([min, max]).range(finest), expected, "{min} to {max}");
        }
    }

    #[test]
    fn a_distribution_is_recognised_by_its_mean_and_its_deviation() {
        let quantiles = || (1..1000).map(|index| f64::from(index) / 1000.0);
        assert_eq!(of(quantiles()).distribution(0.0), None);
        let exponential = of(quantiles().map(|unit| -50.0 * unit.ln())).distribution(0.0).unwrap();
        let mean = exponential["exponential"]["mean"].as_f64().unwrap();
        assert!((48.0..52.0).contains(&mean), "{exponential}");
        let bell = of(quantiles().map(|unit| 100.0 + 10.0 * (unit / (1.0 - unit)).ln()));
        assert_eq!(bell.distribution(0.0).unwrap()["normal"]["mean"], 100.0);
        assert_eq!(of([1.0, 1.0, 9.0]).distribution(1.0), None, "too few");
    }

    #[test]
    fn an_even_range_keeps_the_mean_of_skewed_lengths() {
        let skewed = of((0..1000).map(|index| if index == 0 { 10_000.0 } else { 30.0 }));
        let (low, high) = skewed.even();
        assert_eq!((low + high) / 2, skewed.middle());
        assert_eq!(of([5.0, 5.0]).even(), (5, 5));
    }

    #[test]
    fn numbers_without_a_value_are_left_out() {
        let all = of([f64::NAN, f64::INFINITY, 2.0, f64::MIN, f64::MAX]);
        assert_eq!(all.count, 3);
        assert!((all.max - all.min).is_finite());
    }
}
