//! Collects a distribution of samples: exact up to a limit, to three digits beyond.

use plimsoll_measure::histogram::Histogram;

use crate::foreign::distribution::{Distribution, Source};
use crate::foreign::k6::metric::{Contains, TIME_NS};

/// The maximum number of values retained at once, over all metrics: 32 MB.
pub(super) const RETAINED_MAX: usize = 4_000_000;

/// The number of values that may still be retained.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(RETAINED_MAX)
    }
}

/// A distribution.
#[derive(Debug)]
pub(super) struct Trend {
    contains: Contains,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    retained: Retained,
}

/// The retained values.
#[derive(Debug)]
enum Retained {
    /// Every value.
    Samples(Vec<f64>),
    /// A histogram; times only.
    Histogram(Histogram),
    /// Only their sum, minimum and maximum.
    SummaryOnly,
}

impl Trend {
    /// No value yet.
    pub(super) const fn new(contains: Contains) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { contains, count: 0, sum: 0.0, min, max, retained: Retained::Samples(Vec::new()) }
    }

    /// Takes one value, in milliseconds if it is a time.
    pub(super) fn record(&mut self, value: f64, room: &mut Room) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.retained {
            Retained::Samples(values) if room.0 > 0 => {
                room.0 -= 1;
                values.push(value);
            }
            Retained::Samples(values) => {
                room.0 += values.len();
                values.push(value);
                let counts = (self.contains == Contains::Time).then(|| counts(values));
                self.retained = counts.map_or(Retained::SummaryOnly, Retained::Histogram);
            }
            Retained::Histogram(counts) => counts.record(ns(value)),
            Retained::SummaryOnly => {}
        }
    }

    /// The numbers, with the percentiles that are `wanted`; times in milliseconds.
    pub(super) fn into_distribution(self, wanted: &[f64]) -> Distribution {
        let (count, any) = (self.count, self.count > 0);
        let mut numbers = Distribution {
            count: Some(count),
            mean: any.then(|| self.sum / count as f64),
            min: any.then_some(self.min),
            max: any.then_some(self.max),
            source: Source::Samples,
            ..Distribution::default()
        };
        match self.retained {
            Retained::Samples(mut values) if any => {
                numbers.histogram = (self.contains == Contains::Time).then(|| counts(&values));
                values.sort_unstable_by(f64::total_cmp);
                wanted.iter().for_each(|at| numbers.set(*at, interpolated(&values, *at)));
            }
            Retained::Histogram(counts) => {
                wanted.iter().for_each(|at| numbers.set(*at, counts.at(*at) as f64 / TIME_NS));
                (numbers.histogram, numbers.source) = (Some(counts), Source::Histogram);
            }
            Retained::Samples(_) | Retained::SummaryOnly => {}
        }
        numbers
    }
}

/// A time in milliseconds as nanoseconds.
pub(super) fn ns(ms: f64) -> u64 {
    // A float as the nearest whole number, clamped; NaN becomes zero.
    (ms * TIME_NS).round() as u64
}

fn counts(values: &[f64]) -> Histogram {
    let mut counts = Histogram::default();
    values.iter().for_each(|value| counts.record(ns(*value)));
    counts
}

/// The percentile of sorted values as k6 computes it: on the straight line between the two nearest ranks of `n - 1`.
fn interpolated(sorted: &[f64], percentile: f64) -> f64 {
    let rank = percentile / 100.0 * (sorted.len() as f64 - 1.0);
    let at = |rank: f64| sorted.get(rank as usize).or(sorted.last()).copied().unwrap_or_default();
    let (below, above) = (at(rank.floor()), at(rank.ceil()));
    below + (above - below) * rank.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_times_are_counted_to_three_digits_and_free_their_memory() {
        let mut room = Room(500);
        let (mut long, mut short) = (Trend::new(Contains::Time), Trend::new(Contains::Time));
        for number in 1..=1000 {
            long.record(f64::from(number), &mut room);
        }
        assert_eq!(room.0, 500);
        short.record(1.5, &mut room);
        let (long, short) = (long.into_distribution(&[50.0]), short.into_distribution(&[50.0]));
        assert_eq!((long.source, long.count, long.mean), (Source::Histogram, Some(1000), Some(500.5)));
        assert!((long.at(50.0).unwrap() - 500.0).abs() < 1.0, "{long:?}");
        assert_eq!((short.source, short.at(50.0)), (Source::Samples, Some(1.5)));
    }

    #[test]
    fn beyond_the_limit_other_values_keep_their_sum_minimum_and_maximum() {
        let (mut room, mut trend) = (Room(2), Trend::new(Contains::Default));
        [3.0, -1.0, 4.0].into_iter().for_each(|value| trend.record(value, &mut room));
        let found = trend.into_distribution(&[50.0]);
        assert_eq!(
            (found.min, found.max, found.mean, found.at(50.0)),
            (Some(-1.0), Some(4.0), Some(2.0), None)
        );
    }

    #[test]
    fn one_value_is_every_percentile() {
        assert_eq!(interpolated(&[7.0], 99.0), 7.0);
        assert_eq!(interpolated(&[1.0, 2.0], 100.0), 2.0);
    }
}
