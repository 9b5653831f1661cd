//! Adds up the samples of one metric, and of its parts by tags.

use plimsoll_measure::threshold::{Aggregate, Threshold as Parsed};

use super::line::{Data, Submetric, Tags};
use super::trend::{Room, Trend};
use crate::foreign::distribution::Distribution;
use crate::foreign::k6::metric::{Contains, Kind, Named};
use crate::foreign::value::{Threshold, Values};

/// Percentiles that are always computed.
const WANTED: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// The sums of one metric, over all samples and by tags.
#[derive(Debug)]
pub(super) struct Series {
    contains: Contains,
    thresholds: Vec<String>,
    whole: Accumulator,
    parts: Vec<Part>,
}

/// The sums of the samples with certain tags.
#[derive(Debug)]
struct Part {
    name: String,
    tags: Vec<(String, String)>,
    accumulator: Accumulator,
}

/// Adds up samples. A trend also collects its distribution.
#[derive(Debug)]
struct Accumulator {
    values: Values,
    trend: Option<Trend>,
}

impl Series {
    /// A metric as a line describes it.
    pub(super) fn new(kind: Kind, data: &mut Data<'_>) -> Self {
        let contains = data.contains;
        let part = |it: Submetric| Part {
            name: it.name,
            tags: it.tags.unwrap_or_default().into_iter().collect(),
            accumulator: Accumulator::new(kind, contains),
        };
        Self {
            contains,
            thresholds: data.thresholds.take().unwrap_or_default(),
            whole: Accumulator::new(kind, contains),
            parts: data.submetrics.take().unwrap_or_default().into_iter().map(part).collect(),
        }
    }

    /// The number of accumulators: one for the whole metric, and one for each submetric.
    pub(super) fn accumulators(&self) -> usize {
        1 + self.parts.len()
    }

    /// Takes one sample.
    pub(super) fn record(&mut self, value: f64, tags: &Tags<'_>, room: &mut Room) {
        self.whole.record(value, room);
        for part in &mut self.parts {
            let has = |(name, value): &(String, String)| {
                tags.get(name.as_str()).is_some_and(|found| found.as_str() == value)
            };
            if part.tags.iter().all(has) {
                part.accumulator.record(value, room);
            }
        }
    }

    /// The resulting metrics and judged thresholds, over `seconds`.
    pub(super) fn close(self, name: &str, seconds: f64) -> (Vec<Named>, Vec<Threshold>) {
        let parsed: Vec<_> = self
            .thresholds
            .iter()
            .map(|expression| (expression, expression.parse::<Parsed>().ok()))
            .collect();
        let mut wanted = WANTED.to_vec();
        wanted.extend(parsed.iter().filter_map(|(_, parsed)| match parsed.as_ref()?.aggregate {
            Aggregate::Percentile(percentile) => Some(percentile),
            _ => None,
        }));
        let whole = self.whole.values(&wanted, seconds);
        let judged =
            parsed.iter().map(|(expression, parsed)| judge(name, expression, parsed.as_ref(), &whole));
        let judged = judged.collect();
        let parts = self.parts.into_iter().map(|part| (part.name, part.accumulator.values(&WANTED, seconds)));
        let all = std::iter::once((name.to_owned(), whole)).chain(parts);
        (all.map(|(name, values)| Named::of(name, self.contains, values)).collect(), judged)
    }
}

impl Accumulator {
    fn new(kind: Kind, contains: Contains) -> Self {
        let values = match kind {
            Kind::Counter => Values::Counter { count: 0.0, rate_per_s: None },
            Kind::Gauge => Values::Gauge { value: 0.0, min: None, max: None },
            Kind::Rate => Values::Share { share: 0.0, yes: Some(0), total: Some(0) },
            Kind::Trend => Values::Trend(Distribution::default()),
        };
        Self { values, trend: (kind == Kind::Trend).then(|| Trend::new(contains)) }
    }

    fn record(&mut self, sample: f64, room: &mut Room) {
        match &mut self.values {
            Values::Counter { count, .. } => *count += sample,
            Values::Gauge { value, min, max } => {
                let (least, most) = (min.unwrap_or(sample), max.unwrap_or(sample));
                (*value, *min, *max) = (sample, Some(least.min(sample)), Some(most.max(sample)));
            }
            Values::Share { yes, total, .. } => {
                *total = total.map(|total| total + 1);
                *yes = yes.map(|yes| yes + u64::from(sample != 0.0));
            }
            Values::Trend(_) => self.trend.iter_mut().for_each(|trend| trend.record(sample, room)),
        }
    }

    /// The numbers; times in milliseconds.
    fn values(self, wanted: &[f64], seconds: f64) -> Values {
        match (self.values, self.trend) {
            (_, Some(trend)) => Values::Trend(trend.into_distribution(wanted)),
            (Values::Counter { count, .. }, _) => {
                Values::Counter { count, rate_per_s: (seconds > 0.0).then(|| count / seconds) }
            }
            (Values::Share { yes, total, .. }, _) => {
                let share = yes.unwrap_or(0) as f64 / total.unwrap_or(0).max(1) as f64;
                Values::Share { share, yes, total }
            }
            (values, _) => values,
        }
    }
}

fn judge(metric: &str, expression: &str, parsed: Option<&Parsed>, values: &Values) -> Threshold {
    let value = parsed.and_then(|parsed| number(parsed.aggregate, values));
    let held = parsed
        .zip(value)
        .and_then(|(parsed, value)| Some(parsed.comparison.holds(value, parsed.bound.as_number()?)));
    Threshold { metric: metric.to_owned(), expression: expression.to_owned(), value, held }
}

/// The value of a threshold; times in milliseconds. A rate without samples has no value.
fn number(aggregate: Aggregate, values: &Values) -> Option<f64> {
    match (values, aggregate) {
        (Values::Counter { count, .. }, Aggregate::Count) => Some(*count),
        (Values::Counter { rate_per_s, .. }, Aggregate::Rate) => *rate_per_s,
        (Values::Gauge { value, .. }, Aggregate::Value) => Some(*value),
        (Values::Share { share, total, .. }, Aggregate::Rate) => Some(*share).filter(|_| *total != Some(0)),
        (Values::Trend(trend), Aggregate::Avg) => trend.mean,
        (Values::Trend(trend), Aggregate::Min) => trend.min,
        (Values::Trend(trend), Aggregate::Max) => trend.max,
        (Values::Trend(trend), Aggregate::Med) => trend.at(50.0),
        (Values::Trend(trend), Aggregate::Percentile(percentile)) => trend.at(percentile),
        _ => None,
    }
}
