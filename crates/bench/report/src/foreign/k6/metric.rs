//! Defines a metric of k6: its kind, unit and numbers.

use std::collections::BTreeMap;

use plimsoll_measure::clock::MILLISECOND_NS;
use serde::Deserialize;

use crate::foreign::distribution::Distribution;
use crate::foreign::value::{Tool, Unit, Values};

/// k6 counts times in milliseconds.
pub(super) const TIME_NS: f64 = MILLISECOND_NS as f64;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A sum.
    Counter,
    /// A last value.
    Gauge,
    /// A share.
    Rate,
    /// A distribution.
    Trend,
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Contains {
    /// Milliseconds.
    Time,
    /// Bytes.
    Data,
    /// Anything else.
    #[default]
    #[serde(other)]
    Default,
}

/// The numbers of a metric by k6's names. A number may be null, because JSON has no NaN.
pub(super) type Numbers = BTreeMap<String, Option<f64>>;

/// A metric under its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    /// The metric's name with its tags, such as `http_req_duration{expected_response:true}`.
    pub name: String,
    pub unit: Unit,
    /// Its numbers; times in nanoseconds.
    pub values: Values,
}

impl Named {
    /// A metric with k6's numbers.
    pub(super) fn new(name: &str, kind: Kind, contains: Contains, numbers: &Numbers) -> Self {
        Self::of(name.to_owned(), contains, values(kind, numbers))
    }

    /// A metric whose times are in milliseconds.
    pub(super) fn of(name: String, contains: Contains, values: Values) -> Self {
        let values = match (values, contains) {
            (Values::Trend(trend), Contains::Time) => Values::Trend(trend.times(TIME_NS)),
            (values, _) => values,
        };
        Self { name, unit: contains.unit(), values }
    }
}

impl Contains {
    /// The unit after times were turned into nanoseconds.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Time => Unit::Nanoseconds,
            Self::Data => Unit::Bytes,
            Self::Default => Unit::Plain,
        }
    }

    /// The kind of values of a built-in metric of k6 or Plimsoll, for the form that does not state it. Other
    /// metrics are plain numbers.
    pub(super) fn of(tool: Tool, name: &str) -> Self {
        const TIMES: [&str; 6] = [
            "iteration_duration",
            "group_duration",
            "grpc_req_duration",
            "ws_connecting",
            "ws_session_duration",
            "ws_ping",
        ];
        const OURS: [&str; 4] = ["_response", "_service", "_wait", "_wake"];
        match base(name) {
            time if tool == Tool::Plimsoll && OURS.iter().any(|ending| time.ends_with(ending)) => Self::Time,
            "http_req_failed" => Self::Default,
            time if time.starts_with("http_req_") || TIMES.contains(&time) => Self::Time,
            "data_sent" | "data_received" => Self::Data,
            _ => Self::Default,
        }
    }
}

impl Kind {
    /// The kind of the metric that has these numbers, for the form that does not state it.
    pub(super) fn of(numbers: &Numbers) -> Self {
        let has = |name: &str| numbers.contains_key(name);
        let trend = numbers.keys().any(|name| percentile(name).is_some() || name == "avg");
        match () {
            () if trend => Self::Trend,
            () if has("passes") && has("fails") => Self::Rate,
            () if has("value") => Self::Gauge,
            () if has("min") || has("max") => Self::Trend,
            () => Self::Counter,
        }
    }
}

/// A metric's name without its tags.
pub(super) fn base(name: &str) -> &str {
    name.split_once('{').map_or(name, |(base, _)| base)
}

/// The percentile that k6 calls `name`: `med`, `p(99.9)`, or `p99.9` in its machine-readable form.
pub(super) fn percentile(name: &str) -> Option<f64> {
    if name == "med" {
        return Some(50.0);
    }
    let number = name.strip_prefix('p')?;
    let number = number.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')).unwrap_or(number);
    let percentile: f64 = number.trim().parse().ok()?;
    (0.0..=100.0).contains(&percentile).then_some(percentile)
}

/// The number in `numbers` that an expression such as `p(95)<500` names.
pub(super) fn measured(expression: &str, numbers: &Numbers) -> Option<f64> {
    let method = expression.split(['<', '>', '=', '!']).next()?.trim();
    let same =
        |name: &str| name == method || (percentile(name).is_some() && percentile(name) == percentile(method));
    let found = numbers.iter().find(|(name, _)| same(name)).map(|(_, value)| *value);
    // In the older form, the `rate` of a rate metric is called `value`.
    let rate = || (method == "rate").then(|| numbers.get("value").copied()).flatten();
    found.or_else(rate).flatten()
}

fn values(kind: Kind, numbers: &Numbers) -> Values {
    let number = |name: &str| numbers.get(name).copied().flatten();
    let whole = |name: &str| number(name).filter(|count| *count >= 0.0).map(|count| count.round() as u64);
    match kind {
        Kind::Counter => {
            Values::Counter { count: number("count").unwrap_or_default(), rate_per_s: number("rate") }
        }
        Kind::Gauge => {
            let value = number("value").unwrap_or_default();
            Values::Gauge { value, min: number("min"), max: number("max") }
        }
        Kind::Rate => {
            // `passes` counts true samples: for http_req_failed these are the failed requests.
            let yes = whole("passes").or_else(|| whole("matches"));
            let both = || Some(yes?.saturating_add(whole("fails")?));
            let share = number("rate").or_else(|| number("value")).unwrap_or_default();
            Values::Share { share, yes, total: whole("total").or_else(both) }
        }
        Kind::Trend => {
            let (mean, min, max) = (number("avg"), number("min"), number("max"));
            let mut trend = Distribution { count: whole("count"), mean, min, max, ..Distribution::default() };
            let known = numbers.iter().filter_map(|(name, value)| Some((percentile(name)?, (*value)?)));
            known.for_each(|(percentile, value)| trend.set(percentile, value));
            Values::Trend(trend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pairs: &[(&str, f64)]) -> Numbers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect()
    }

    #[test]
    fn the_kind_of_a_metric_follows_from_its_numbers() {
        for (pairs, kind) in [
            (&[("count", 1.0), ("rate", 2.0)][..], Kind::Counter),
            (&[("value", 1.0), ("min", 1.0), ("max", 2.0)], Kind::Gauge),
            (&[("value", 0.5), ("passes", 1.0), ("fails", 1.0)], Kind::Rate),
            (&[("count", 4.0), ("p(99.9)", 1.0)], Kind::Trend),
            (&[("avg", 4.0)], Kind::Trend),
        ] {
            assert_eq!(Kind::of(&numbers(pairs)), kind, "{pairs:?}");
        }
    }

    #[test]
    fn times_become_nanoseconds_and_other_trends_keep_their_unit() {
        let pairs = numbers(&[("avg", 1.5), ("med", 1.0), ("p(99.9)", 2.0)]);
        let Values::Trend(time) = Named::new("t", Kind::Trend, Contains::Time, &pairs).values else {
            panic!()
        };
        assert_eq!((time.mean, time.at(50.0), time.at(99.9)), (Some(1.5e6), Some(1e6), Some(2e6)));
        let Values::Trend(size) = Named::new("s", Kind::Trend, Contains::Data, &pairs).values else {
            panic!()
        };
        assert_eq!(size.mean, Some(1.5));
    }

    #[test]
    fn the_passes_of_a_failure_rate_are_the_failures() {
        let pairs = numbers(&[("rate", 0.25), ("passes", 1.0), ("fails", 3.0)]);
        let share = Named::new("http_req_failed", Kind::Rate, Contains::Default, &pairs).values;
        assert_eq!(share, Values::Share { share: 0.25, yes: Some(1), total: Some(4) });
    }
}
