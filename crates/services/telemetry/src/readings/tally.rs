//! Aggregates readings into statistics, in any order, as a pure computation.

use std::collections::BTreeMap;

use super::Error;
use super::allowance::Allowance;
use super::statistics::{
    Detail, IntervalStatistics, MetricStatistics, Percentiles, SensorStatistics, StatisticsQuery,
};

/// The number of values and intervals whose statistics take about a millisecond of CPU time.
const LONG: usize = 20_000;

/// Count, sum, minimum and maximum of values, in the form of a bucket's metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    pub(crate) const NONE: Self = Summary { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    pub(crate) fn of(value: f64) -> Self {
        Summary { count: 1, sum: value, min: value, max: value }
    }

    pub(crate) fn add(&mut self, other: Summary) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// The statistics of one sensor, while readings are added.
#[derive(Debug)]
pub(crate) struct Tally {
    from_ms: i64,
    to_ms: i64,
    interval_ms: i64,
    detail: Detail,
    allowance: Allowance,
    values: usize,
    /// Intervals by number. Metrics are in order of arrival: they are few, and nearly always in the same order.
    intervals: BTreeMap<i64, Vec<(String, Cell)>>,
}

#[derive(Debug)]
struct Cell {
    summary: Summary,
    values: Vec<f64>,
}

impl Tally {
    /// A tally for one sensor of a valid query.
    pub(crate) fn new(query: &StatisticsQuery, allowance: Allowance) -> Self {
        let (from_ms, to_ms) = (query.from_ms, query.to_ms);
        let interval_ms = query.interval_ms.unwrap_or(to_ms - from_ms);
        let intervals = BTreeMap::new();
        Tally { from_ms, to_ms, interval_ms, detail: query.detail, allowance, values: 0, intervals }
    }

    pub(crate) fn start_ms(&self) -> i64 {
        self.from_ms
    }

    pub(crate) fn end_ms(&self) -> i64 {
        self.to_ms
    }

    /// Whether the query needs no single values, so that summaries can suffice.
    pub(crate) fn takes_summaries(&self) -> bool {
        self.detail == Detail::Summary
    }

    /// Whether a summary of readings in `[from, to)` suffices.
    pub(crate) fn takes_summary(&self, from_ms: i64, to_ms: i64) -> bool {
        self.detail == Detail::Summary
            && from_ms >= self.from_ms
            && to_ms <= self.to_ms
            && self.interval(from_ms) == self.interval(to_ms - 1)
    }

    /// Adds a value of a reading; values outside the window are ignored.
    ///
    /// # Errors
    /// When the allowance is exceeded.
    pub(crate) fn add(&mut self, at_ms: i64, metric: &str, value: f64) -> Result<(), Error> {
        if at_ms < self.from_ms || at_ms >= self.to_ms {
            return Ok(());
        }
        let keeps = self.detail == Detail::Percentiles;
        if keeps {
            self.allowance.value(self.values)?;
        }
        let cell = self.cell(at_ms, metric)?;
        cell.summary.add(Summary::of(value));
        if keeps {
            cell.values.push(value);
            self.values += 1;
        }
        Ok(())
    }

    /// Adds a summary that [`Tally::takes_summary`] accepts.
    ///
    /// # Errors
    /// When the allowance is exceeded.
    pub(crate) fn add_summary(&mut self, from_ms: i64, metric: &str, summary: Summary) -> Result<(), Error> {
        self.cell(from_ms, metric)?.summary.add(summary);
        Ok(())
    }

    fn interval(&self, at_ms: i64) -> i64 {
        (at_ms - self.from_ms).div_euclid(self.interval_ms)
    }

    fn cell(&mut self, at_ms: i64, metric: &str) -> Result<&mut Cell, Error> {
        let metrics = self.intervals.entry(self.interval(at_ms)).or_default();
        let known = metrics.iter().position(|(name, _)| name == metric);
        let index = known.unwrap_or(metrics.len());
        if known.is_none() {
            self.allowance.summary()?;
            metrics.push((metric.to_owned(), Cell { summary: Summary::NONE, values: Vec::new() }));
        }
        Ok(&mut metrics[index].1)
    }

    /// Whether finishing takes so long that it needs a blocking thread.
    pub(crate) fn is_long(&self) -> bool {
        self.values + self.intervals.len() > LONG
    }

    /// Computes the statistics.
    pub(crate) fn finish(self, sensor: &str) -> SensorStatistics {
        let (from_ms, to_ms, interval_ms) = (self.from_ms, self.to_ms, self.interval_ms);
        let interval = |(index, mut metrics): (i64, Vec<(String, Cell)>)| {
            let start_ms = from_ms + index * interval_ms;
            metrics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let metrics = metrics.into_iter().map(|(name, cell)| (name, cell.finish())).collect();
            IntervalStatistics {
                from_ms: start_ms,
                to_ms: start_ms.saturating_add(interval_ms).min(to_ms),
                metrics,
            }
        };
        let intervals = self.intervals.into_iter().map(interval).collect();
        self.allowance.values_gone(self.values);
        SensorStatistics { sensor: sensor.to_owned(), intervals }
    }
}

impl Cell {
    fn finish(mut self) -> MetricStatistics {
        let Summary { count, sum, min, max } = self.summary;
        // For a count that a double cannot hold exactly, the sum is less exact than this conversion.
        let mean = sum / count as f64;
        MetricStatistics { count, min, max, mean, percentiles: Percentiles::of(&mut self.values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_service::Reservation;

    fn allowing(values_max: usize) -> Allowance {
        Allowance::new(values_max, 100_000, Reservation::unlimited())
    }

    fn query(from_ms: i64, to_ms: i64, interval_ms: Option<i64>, detail: Detail) -> StatisticsQuery {
        StatisticsQuery { sensors: vec!["s".into()], from_ms, to_ms, interval_ms, detail }
    }

    #[test]
    fn a_value_counts_in_its_interval() {
        let mut tally = Tally::new(&query(-5, 12, Some(10), Detail::Percentiles), allowing(100));
        for at_ms in [-6, -5, 4, 5, 11, 12] {
            tally.add(at_ms, "m", at_ms as f64).unwrap();
        }
        let found = tally.finish("s").intervals;
        let of = |index: usize| {
            let interval: &IntervalStatistics = &found[index];
            let m = interval.metrics[0].1;
            (interval.from_ms, interval.to_ms, m.count, m.min, m.max, m.mean)
        };
        assert_eq!(of(0), (-5, 5, 2, -5.0, 4.0, -0.5));
        assert_eq!(of(1), (5, 12, 2, 5.0, 11.0, 8.0));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_summary_is_accepted_where_it_equals_the_values() {
        let tally = Tally::new(&query(0, 100, Some(50), Detail::Summary), allowing(0));
        assert!(tally.takes_summary(0, 50) && tally.takes_summary(60, 100));
        assert!(!tally.takes_summary(40, 60), "two intervals");
        assert!(!tally.takes_summary(-10, 40) && !tally.takes_summary(60, 110), "outside");
        assert!(!Tally::new(&query(0, 100, None, Detail::Percentiles), allowing(9)).takes_summary(0, 50));
    }

    #[test]
    fn values_beyond_the_limit_are_an_error_and_summaries_hold_none() {
        let mut tally = Tally::new(&query(0, 10, None, Detail::Percentiles), allowing(1));
        tally.add(1, "m", 1.0).unwrap();
        tally.add(10, "m", 1.0).unwrap();
        assert!(matches!(tally.add(2, "m", 1.0), Err(Error::TooMuch { values_max: 1 })));
        let mut summary = Tally::new(&query(0, 10, None, Detail::Summary), allowing(0));
        summary.add(1, "m", 1.0).unwrap();
        summary.add_summary(2, "m", Summary { count: 2, sum: 8.0, min: 3.0, max: 5.0 }).unwrap();
        let m = summary.finish("s").intervals[0].metrics[0].1;
        assert_eq!((m.count, m.min, m.max, m.mean, m.percentiles), (3, 1.0, 5.0, 3.0, None));
    }

    #[test]
    fn metrics_times_intervals_are_bounded() {
        let allowance = Allowance::new(0, 3, Reservation::unlimited());
        let mut tally = Tally::new(&query(0, 10, Some(1), Detail::Summary), allowance);
        for (at_ms, metric) in [(1, "a"), (1, "b"), (2, "a"), (2, "a")] {
            tally.add(at_ms, metric, 1.0).unwrap();
        }
        assert!(matches!(tally.add(2, "b", 1.0), Err(Error::TooMany { summaries_max: 3 })));
        let one = Summary { count: 1, sum: 1.0, min: 1.0, max: 1.0 };
        assert!(matches!(tally.add_summary(3, "a", one), Err(Error::TooMany { .. })));
    }

    #[test]
    fn the_greatest_accepted_values_have_a_mean() {
        use crate::reading::METRIC_MAX;
        let mut tally = Tally::new(&query(0, 10, None, Detail::Summary), allowing(0));
        (0..1_000).for_each(|n| tally.add(n % 10, "m", METRIC_MAX).unwrap());
        let mean = tally.finish("s").intervals[0].metrics[0].1.mean;
        assert!((mean / METRIC_MAX - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn long_computations_are_recognised() {
        let mut tally = Tally::new(&query(0, 10, None, Detail::Percentiles), allowing(usize::MAX));
        assert!(!tally.is_long());
        (0..LONG).for_each(|_| tally.add(1, "m", 1.0).unwrap());
        assert!(tally.is_long());
    }
}
