//! Adds up the samples of one metric, and of its parts by tags.

use plimsoll_measure::threshold::{Aggregate, Threshold as Parsed};

use super::line::{Data, Submetric, Tags};
use super::trend::{Room, Trend};
use crate::foreign::k6::metric::{Contains, Kind, Named};
use crate::foreign::value::{Threshold, Values};

/// Percentiles that are always computed.
const WANTED: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// Everything about one metric.
#[derive(Debug)]
pub(super) struct Series {
    contains: Contains,
    thresholds: Vec<String>,
    whole: Sink,
    parts: Vec<Part>,
}

/// The samples with certain tags.
#[derive(Debug)]
struct Part {
    name: String,
    tags: Vec<(String, String)>,
    sink: Sink,
}

/// The sum of samples.
#[derive(Debug)]
enum Sink {
    Counter(f64),
    Gauge(Option<[f64; 3]>),
    Rate { yes: u64, total: u64 },
    Trend(Trend),
}

impl Series {
    /// A metric as a line describes it.
    pub(super) fn new(kind: Kind, data: &mut Data<'_>) -> Self {
        let contains = data.contains;
        let part = |it: Submetric| Part {
            name: it.name,
            tags: it.tags.unwrap_or_default().into_iter().collect(),
            sink: Sink::new(kind, contains),
        };
        Self {
            contains,
            thresholds: data.thresholds.take().unwrap_or_default(),
            whole: Sink::new(kind, contains),
            parts: data.submetrics.take().unwrap_or_default().into_iter().map(part).collect(),
        }
    }

    /// The number of its sums and distributions.
    pub(super) fn sinks(&self) -> usize {
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
                part.sink.record(value, room);
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
        let parts = self.parts.into_iter().map(|part| (part.name, part.sink.values(&WANTED, seconds)));
        let all = std::iter::once((name.to_owned(), whole)).chain(parts);
        (all.map(|(name, values)| Named::of(name, self.contains, values)).collect(), judged)
    }
}

impl Sink {
    const fn new(kind: Kind, contains: Contains) -> Self {
        match kind {
            Kind::Counter => Self::Counter(0.0),
            Kind::Gauge => Self::Gauge(None),
            Kind::Rate => Self::Rate { yes: 0, total: 0 },
            Kind::Trend => Self::Trend(Trend::new(contains)),
        }
    }

    fn record(&mut self, value: f64, room: &mut Room) {
        match self {
            Self::Counter(sum) => *sum += value,
            Self::Gauge(seen) => {
                let [_, min, max] = seen.unwrap_or([value; 3]);
                *seen = Some([value, min.min(value), max.max(value)]);
            }
            Self::Rate { yes, total } => {
                *total += 1;
                *yes += u64::from(value != 0.0);
            }
            Self::Trend(trend) => trend.record(value, room),
        }
    }

    /// The numbers; times in milliseconds.
    fn values(self, wanted: &[f64], seconds: f64) -> Values {
        match self {
            Self::Counter(count) => {
                Values::Counter { count, rate_per_s: (seconds > 0.0).then(|| count / seconds) }
            }
            Self::Gauge(seen) => {
                let [value, ..] = seen.unwrap_or_default();
                Values::Gauge { value, min: seen.map(|it| it[1]), max: seen.map(|it| it[2]) }
            }
            Self::Rate { yes, total } => {
                let share = yes as f64 / total.max(1) as f64;
                Values::Share { share, yes: Some(yes), total: Some(total) }
            }
            Self::Trend(trend) => Values::Trend(trend.into_distribution(wanted)),
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

/// The value of a threshold; times in milliseconds. A share of nothing has none.
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
