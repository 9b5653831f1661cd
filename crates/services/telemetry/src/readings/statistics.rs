//! Defines statistics queries and their answers.

use super::{Error, QueryLimits};

/// The detail of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Count, minimum, maximum, mean. Buckets within one interval are read without their values.
    Summary,
    /// The summary and exact percentiles, which need every value.
    #[default]
    Percentiles,
}

/// Statistics of sensors in a window of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatisticsQuery {
    /// The sensors.
    pub sensors: Vec<String>,
    /// The start, in milliseconds since 1970.
    pub from_ms: i64,
    /// The end, exclusive.
    pub to_ms: i64,
    /// The length of intervals. The first begins with the window, the last ends with it. `None` gives one interval.
    pub interval_ms: Option<i64>,
    /// The detail.
    pub detail: Detail,
}

/// The statistics of a sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorStatistics {
    /// The sensor.
    pub sensor: String,
    /// The intervals with readings, in order of time.
    pub intervals: Vec<IntervalStatistics>,
}

/// The statistics of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalStatistics {
    /// The start, in milliseconds since 1970.
    pub from_ms: i64,
    /// The end, exclusive.
    pub to_ms: i64,
    /// The metrics, sorted by name.
    pub metrics: Vec<(String, MetricStatistics)>,
}

/// The statistics of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricStatistics {
    /// The number of values, at least one.
    pub count: u64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The sum of the values divided by their count.
    pub mean: f64,
    /// The percentiles, on request.
    pub percentiles: Option<Percentiles>,
}

/// Exact percentiles by nearest rank: the least value with at least this percentage of all values at or below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Percentiles {
    /// The percentiles of values in any order; `None` without values.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let rank = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100);
            values.get(rank.saturating_sub(1)).copied()
        };
        Some(Percentiles { p50: rank(50)?, p95: rank(95)?, p99: rank(99)? })
    }
}

impl StatisticsQuery {
    /// Refuses an invalid or too large query.
    pub(crate) fn check(&self, limits: &QueryLimits) -> Result<(), Error> {
        let fault = |text: String| Err(Error::Query(text));
        let (sensors, most) = (self.sensors.len(), limits.sensors_max);
        if sensors == 0 || sensors > most {
            return fault(format!("{sensors} sensors: ask for 1 to {most}"));
        }
        let Some(length) = self.to_ms.checked_sub(self.from_ms).filter(|length| *length > 0) else {
            return fault("the window is empty: `to` must be later than `from`".into());
        };
        match self.interval_ms {
            None => self.check_size(1, limits),
            Some(interval) if interval < 1 => fault("an interval has at least a millisecond".into()),
            Some(interval)
                if length / interval >= i64::try_from(limits.intervals_max).unwrap_or(i64::MAX) =>
            {
                fault(format!("more than {} intervals: make them longer", limits.intervals_max))
            }
            Some(interval) => {
                let intervals = length.unsigned_abs().div_ceil(interval.unsigned_abs());
                self.check_size(usize::try_from(intervals).unwrap_or(usize::MAX), limits)
            }
        }
    }

    /// Refuses a query that has too many summaries even with a single metric for each sensor and interval.
    fn check_size(&self, intervals: usize, limits: &QueryLimits) -> Result<(), Error> {
        let summaries_max = limits.summaries_max;
        match self.sensors.len().saturating_mul(intervals) > summaries_max {
            true => Err(Error::TooMany { summaries_max }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_at_its_nearest_rank() {
        let check = |values: &[f64], expected: Option<[f64; 3]>| {
            let found = Percentiles::of(&mut values.to_vec());
            assert_eq!(found, expected.map(|[p50, p95, p99]| Percentiles { p50, p95, p99 }));
        };
        check(&[], None);
        check(&[7.0], Some([7.0; 3]));
        check(&[3.0, 1.0, 2.0], Some([2.0, 3.0, 3.0]));
        check(&(1..=100).rev().map(f64::from).collect::<Vec<_>>(), Some([50.0, 95.0, 99.0]));
        check(&(1..=200).map(f64::from).collect::<Vec<_>>(), Some([100.0, 190.0, 198.0]));
        check(&[-1.0, f64::MIN, 0.0, -0.0], Some([-1.0, 0.0, 0.0]));
    }

    #[test]
    fn an_invalid_query_is_refused() {
        let limits = QueryLimits { sensors_max: 2, intervals_max: 10, ..QueryLimits::default() };
        let check = |sensors: usize, from_ms, to_ms, interval_ms| {
            let query = StatisticsQuery {
                sensors: vec!["s".into(); sensors],
                from_ms,
                to_ms,
                interval_ms,
                ..StatisticsQuery::default()
            };
            query.check(&limits).is_ok()
        };
        assert!(check(1, 0, 1, None));
        assert!(!check(0, 0, 1, None));
        assert!(!check(3, 0, 1, None));
        assert!(!check(1, 1, 1, None));
        assert!(!check(1, i64::MIN, i64::MAX, None));
        assert!(!check(1, 0, 100, Some(0)));
        assert!(check(1, 0, 99, Some(10)));
        assert!(!check(1, 0, 100, Some(10)));
    }

    #[test]
    fn sensors_times_intervals_are_bounded() {
        let limits = QueryLimits { summaries_max: 12, ..QueryLimits::default() };
        let check = |sensors: usize, to_ms, interval_ms| {
            let sensors = vec!["s".into(); sensors];
            let query = StatisticsQuery { sensors, to_ms, interval_ms, ..StatisticsQuery::default() };
            query.check(&limits)
        };
        assert!(check(3, 40, Some(10)).is_ok());
        assert!(matches!(check(3, 41, Some(10)), Err(Error::TooMany { summaries_max: 12 })), "a part is one");
        assert!(matches!(check(4, 40, Some(10)), Err(Error::TooMany { .. })));
        assert!(check(12, 40, None).is_ok());
        assert!(check(13, 40, None).unwrap_err().to_string().contains("fewer sensors"));
    }
}
