//! Tests whether neighbouring pairs resemble each other. The sign-flip test assumes independent pairs. If the
//! state of the machine lasts from pair to pair, the test would find differences too often.
//!
//! If pairs are independent, each order of them is equally likely. So p is the share of random orders whose
//! neighbours resemble each other as much. At most [`LEVEL`] of independent comparisons are called
//! correlated, for any distribution. Correlation raises the error of a mean by the factor √((1 + ρ) ÷ (1
//! − ρ)), if the correlation falls by the factor ρ from pair to pair. The interval of a correlated comparison
//! is widened by this factor. ρ is the measured correlation without its bias, (n·r + 1) ÷ (n − 4) (Kendall,
//! "Note on bias in the estimation of autocorrelation", 1954).

use super::form::Correlation;
use super::sign_flip::{Evidence, mean};
use crate::random::Random;

/// The largest p of a shown correlation: the share of independent comparisons that are called correlated, at most.
pub const LEVEL: f64 = 0.02;
/// The orders of the pairs in a test, the measured one included.
const ORDERS: usize = 2_000;
/// The largest correlation that widens an interval. With a larger correlation, the pairs are in effect a
/// single pair.
const CORRELATION_MAX: f64 = 0.9;
/// Sums that differ by less than this share of the sum of squares are equal, because rounding alone explains them.
const TIE: f64 = 1e-9;

/// The correlation of neighbouring pairs, if it is shown. `seed` decides the sample of orders.
pub(super) fn shown(pairs: &[f64], seed: u64) -> Option<Correlation> {
    let centre = mean(pairs);
    let mut left: Vec<f64> = pairs.iter().map(|pair| pair - centre).collect();
    let squares: f64 = left.iter().map(|value| value * value).sum();
    let measured = neighbours(&left);
    let r = measured / squares;
    // Skips the test: a correlation within one standard error is never significant.
    if !r.is_finite() || r * (pairs.len() as f64).sqrt() < 1.0 {
        return None;
    }
    let mut random = Random::new(seed);
    let mut as_close = 1;
    for _ in 1..ORDERS {
        shuffle(&mut left, &mut random);
        as_close += usize::from(neighbours(&left) >= measured - TIE * squares);
    }
    let p = as_close as f64 / ORDERS as f64;
    (p <= LEVEL).then(|| Correlation { r, p, widened: widening(r, pairs.len()) })
}

/// The sum of the products of neighbours.
fn neighbours(values: &[f64]) -> f64 {
    values.windows(2).map(|pair| pair[0] * pair[1]).sum()
}

/// The factor by which the correlation widens an interval.
fn widening(r: f64, pairs: usize) -> f64 {
    let pairs = pairs as f64;
    let correlation = ((pairs * r + 1.0) / (pairs - 4.0)).clamp(0.0, CORRELATION_MAX);
    ((1.0 + correlation) / (1.0 - correlation)).sqrt()
}

fn shuffle(values: &mut [f64], random: &mut Random) {
    for last in (1..values.len()).rev() {
        let other = (random.unit() * (last + 1) as f64) as usize;
        values.swap(last, other.min(last));
    }
}

impl Evidence {
    /// The same evidence with a wider interval.
    pub(super) fn widened(self, by: f64) -> Self {
        let centre = self.centre;
        Self { low: centre - (centre - self.low) * by, high: centre + (self.high - centre) * by, ..self }
    }

    /// Whether the interval excludes equality.
    pub(super) fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::sign_flip::{ALPHA, weigh};
    use super::*;

    const TRIALS: u64 = 1_000;

    /// Pairs whose noise falls by `correlation` from one to the next, with a deviation of 4 %.
    fn wandering(seed: u64, pairs: usize, correlation: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut at = random.normal();
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut next = || {
            let now = at;
            at = correlation * at + fresh * random.normal();
            0.04 * now
        };
        (0..pairs).map(|_| next()).collect()
    }

    fn count(pairs: usize, correlation: f64, is_true: impl Fn(&[f64]) -> bool) -> u64 {
        (0..TRIALS).filter(|seed| is_true(&wandering(*seed, pairs, correlation))).count() as u64
    }

    #[test]
    fn independent_pairs_are_called_correlated_in_two_of_a_hundred_comparisons() {
        for pairs in [8, 10, 20, 40] {
            let called = count(pairs, 0.0, |it| shown(it, 1).is_some());
            println!("{pairs} independent pairs: {called} of {TRIALS} are called correlated");
            // 20 are expected; 34 is three standard errors above.
            assert!((8..=34).contains(&called), "{pairs} pairs: {called}");
        }
    }

    /// The comparisons of A with A that are called correlated, and the false differences without and with the widened interval.
    fn tried(pairs: usize, correlation: f64) -> (u64, u64, u64) {
        let (mut found, mut before, mut after) = (0, 0, 0);
        for seed in 0..TRIALS {
            let values = wandering(seed, pairs, correlation);
            let (evidence, correlated) = (weigh(&values, 0).unwrap(), shown(&values, 1));
            let is_called = evidence.p <= ALPHA;
            let widened = correlated.map_or(evidence, |it| evidence.widened(it.widened));
            found += u64::from(correlated.is_some());
            before += u64::from(is_called);
            after += u64::from(is_called && widened.excludes_zero());
        }
        println!(
            "{pairs} pairs, correlation {correlation}: found in {found}, false differences {before} → {after}"
        );
        (found, before, after)
    }

    #[test]
    fn correlated_pairs_are_found_and_their_false_differences_become_fewer() {
        let (found, before, after) = tried(10, 0.6);
        assert!(found >= 200 && before > 100 && after + 20 < before, "{found}: {before} {after}");
        let (found, before, after) = tried(14, 0.8);
        assert!(found >= 500 && before > 200 && after * 3 < before * 2, "{found}: {before} {after}");
    }

    #[test]
    fn the_interval_is_widened_by_the_error_of_a_correlated_mean() {
        // By hand: (20 × 0.4 + 1) ÷ 16 = 0.5625, and √(1.5625 ÷ 0.4375) = 1.8898.
        assert!((widening(0.4, 20) - 1.889_8).abs() < 1e-4);
        assert_eq!(widening(0.9, 8), widening(0.5, 8), "both are limited");
        let evidence = weigh(&[0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2], 0).unwrap();
        let wide = evidence.widened(2.0);
        assert!((wide.half_width() - 2.0 * evidence.half_width()).abs() < 1e-12);
        assert_eq!((wide.centre, wide.excludes_zero()), (evidence.centre, true));
    }

    #[test]
    fn a_slow_drift_is_shown_and_alternating_or_equal_pairs_are_not() {
        let drift: Vec<f64> = (0..10).map(|index| f64::from(index) / 100.0).collect();
        let found = shown(&drift, 1).unwrap();
        assert!(found.r > 0.6 && found.p <= 0.005 && found.widened > 3.0, "{found:?}");
        assert_eq!(shown(&[0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -0.1], 1), None);
        assert_eq!(shown(&[0.1; 10], 1), None);
    }
}
