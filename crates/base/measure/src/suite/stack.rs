//! Computes the cost stack: the change of each test from the one above it, and the slowest test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Test};

/// The change of a test from the one above, by their medians. A ratio of medians is not a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// The name of the nearest test above that was measured.
    pub above: String,
    /// The rate ÷ that of the test above.
    pub ratio: f64,
    /// The rate − the rate above, per second.
    pub change_per_s: f64,
    /// The extra time per counted unit, in microseconds of the whole load: 1 ÷ rate less 1 ÷ the rate above.
    pub cost_us: f64,
}

/// The rank of a test among those that count the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extreme {
    /// Neither slowest nor fastest, or without a rank.
    #[default]
    Between,
    /// The slowest: the lowest measured rate.
    Floor,
    /// The fastest.
    Ceiling,
}

/// Compares every test with the one above, and finds floor and ceiling.
pub(super) fn build(tests: &mut [Test]) {
    for index in 0..tests.len() {
        let (above, rest) = tests.split_at_mut(index);
        let Some(test) = rest.first_mut() else { continue };
        test.extreme = Extreme::Between;
        let measured = above.iter().rev().find_map(|test| Some((test.name.as_str(), test.figures.as_ref()?)));
        test.delta =
            measured.zip(test.figures.as_ref()).and_then(|((name, above), own)| delta(name, above, own));
    }
    mark(tests);
}

/// The change from the test above; `None` if the two count different units, or one of them did nothing.
fn delta(name: &str, above: &Figures, own: &Figures) -> Option<Delta> {
    let (before, rate) = (above.rate_per_s.median, own.rate_per_s.median);
    let comparable = above.unit == own.unit && before > 0.0 && rate > 0.0;
    comparable.then(|| Delta {
        above: name.to_owned(),
        ratio: rate / before,
        change_per_s: rate - before,
        cost_us: 1e6 / rate - 1e6 / before,
    })
}

/// Marks the slowest and the fastest test that count the same unit as the first measured one.
fn mark(tests: &mut [Test]) {
    let unit = tests.iter().find_map(|test| Some(test.figures.as_ref()?.unit.clone()));
    let rate = |test: &Test| {
        let figures = test.figures.as_ref().filter(|figures| Some(&figures.unit) == unit.as_ref())?;
        Some(figures.rate_per_s.median)
    };
    let mut rates: Vec<(usize, f64)> =
        tests.iter().enumerate().filter_map(|(index, test)| Some((index, rate(test)?))).collect();
    rates.sort_by(|one, other| one.1.total_cmp(&other.1));
    if let [(floor, slowest), .., (ceiling, fastest)] = rates[..]
        && slowest < fastest
    {
        tests[floor].extreme = Extreme::Floor;
        tests[ceiling].extreme = Extreme::Ceiling;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::super::tests::{row, suite};
    use super::*;

    #[test]
    fn each_test_is_compared_with_the_nearest_measured_test_above() {
        let mut suite = suite(&["bench", "hangs", "transform", "insert"], 1);
        for (run, test, outcome, rate) in [
            (1, "bench", Outcome::Completed, 1000.0),
            (2, "hangs", Outcome::Hung, 1.0),
            (3, "transform", Outcome::Completed, 500.0),
            (4, "insert", Outcome::Completed, 200.0),
        ] {
            suite.record(row(run, test, outcome, rate));
        }
        let deltas: Vec<_> = suite.tests.iter().map(|test| test.delta.clone()).collect();
        let delta = |above: &str, ratio, change_per_s, cost_us| {
            Some(Delta { above: above.into(), ratio, change_per_s, cost_us })
        };
        assert_eq!(
            deltas,
            [None, None, delta("bench", 0.5, -500.0, 1000.0), delta("transform", 0.4, -300.0, 3000.0)]
        );
        let extremes: Vec<_> = suite.tests.iter().map(|test| test.extreme).collect();
        assert_eq!(extremes, [Extreme::Ceiling, Extreme::Between, Extreme::Between, Extreme::Floor]);
    }

    #[test]
    fn tests_that_count_different_things_are_not_compared() {
        let mut suite = suite(&["documents", "operations"], 1);
        suite.record(row(1, "documents", Outcome::Completed, 1000.0));
        let mut other = row(2, "operations", Outcome::Completed, 10.0);
        other.measured.as_mut().unwrap().unit = "operations".into();
        suite.record(other);
        assert_eq!(suite.tests[1].delta, None);
        assert!(suite.tests.iter().all(|test| test.extreme == Extreme::Between));
    }

    #[test]
    fn a_test_alone_is_neither_floor_nor_ceiling() {
        let mut suite = suite(&["only"], 1);
        suite.record(row(1, "only", Outcome::Completed, 5.0));
        assert_eq!(suite.tests[0].extreme, Extreme::Between);
    }
}
