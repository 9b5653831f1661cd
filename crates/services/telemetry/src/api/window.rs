//! Parses time windows, and serializes statistics.

use plimsoll_service::openapi::in_query;
use plimsoll_service::{Problem, Span};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::readings::{IntervalStatistics, MetricStatistics, Percentiles};

/// A time window, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start.
    pub from_ms: i64,
    /// The end, exclusive.
    pub to_ms: i64,
}

/// The parameters of a window as requested; `None` if a parameter is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowParams {
    /// The length of the window.
    pub window: Option<Span>,
    /// The start.
    pub from_ms: Option<i64>,
    /// The end.
    pub to_ms: Option<i64>,
}

/// The length of a window without a requested length or start.
const OTHERWISE: Span = Span::seconds(3_600);

impl Window {
    /// The window; by default the last hour.
    ///
    /// # Errors
    /// The window is empty, too long, or overdetermined.
    pub fn of(params: WindowParams, now_ms: i64, longest: Span) -> Result<Self, Problem> {
        if params.window.is_some() && params.from_ms.is_some() {
            return Err(Problem::field("window", "conflicts with `from`: give one of them"));
        }
        // The window includes the current millisecond.
        let to_ms = params.to_ms.unwrap_or_else(|| now_ms.saturating_add(1));
        let length_ms = params.window.unwrap_or(OTHERWISE).as_ms();
        let from_ms = params.from_ms.unwrap_or_else(|| to_ms.saturating_sub(length_ms));
        if to_ms <= from_ms {
            let field = if params.from_ms.is_some() { "from" } else { "window" };
            return Err(Problem::field(field, "the window is empty: it must end after it begins"));
        }
        if to_ms.saturating_sub(from_ms) > longest.as_ms() {
            let field = if params.from_ms.is_some() { "from" } else { "window" };
            return Err(Problem::field(
                field,
                format!("the window is longer than {longest}: ask for parts of it"),
            ));
        }
        Ok(Self { from_ms, to_ms })
    }
}

/// The parameters of a window, for the OpenAPI description.
pub(super) fn parameters() -> Vec<Value> {
    vec![
        in_query("window", "The length, as 15m, 1h or 7d; the window ends now, or at `to`."),
        in_query("from", "The beginning: RFC 3339 or milliseconds since 1970."),
        in_query("to", "The end, exclusive; now by default."),
    ]
}

/// The length of the intervals, if given.
///
/// # Errors
/// The length is 0.
pub fn interval(params: Option<Span>) -> Result<Option<i64>, Problem> {
    match params {
        Some(interval) if interval.as_ms() == 0 => Err(Problem::field("interval", "must be 1ms or more")),
        params => Ok(params.map(Span::as_ms)),
    }
}

/// Serializes intervals without a JSON tree, which would take several times the memory of the text.
pub struct Intervals<'a>(pub &'a [IntervalStatistics]);

/// Serializes the metrics of an interval.
pub struct Metrics<'a>(pub &'a [(String, MetricStatistics)]);

#[derive(Serialize)]
struct Interval<'a> {
    from: i64,
    to: i64,
    metrics: Metrics<'a>,
}

#[derive(Serialize)]
struct Metric {
    count: u64,
    min: f64,
    max: f64,
    mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

impl Metric {
    fn of(it: &MetricStatistics) -> Self {
        let percentile = |of: fn(&Percentiles) -> f64| it.percentiles.as_ref().map(of);
        Self {
            count: it.count,
            min: it.min,
            max: it.max,
            mean: it.mean,
            p50: percentile(|of| of.p50),
            p95: percentile(|of| of.p95),
            p99: percentile(|of| of.p99),
        }
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, it)| (name, Metric::of(it))))
    }
}

impl<'a> Serialize for Intervals<'a> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let interval = |it: &'a IntervalStatistics| Interval {
            from: it.from_ms,
            to: it.to_ms,
            metrics: Metrics(&it.metrics),
        };
        serializer.collect_seq(self.0.iter().map(interval))
    }
}

/// The number of metric statistics in these intervals.
pub fn parts(intervals: &[IntervalStatistics]) -> usize {
    intervals.iter().map(|it| it.metrics.len()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 10_000_000;

    fn of(window: Option<u64>, from_ms: Option<i64>, to_ms: Option<i64>) -> Result<(i64, i64), Problem> {
        let params = WindowParams { window: window.map(Span::millis), from_ms, to_ms };
        Window::of(params, NOW, Span::seconds(86_400)).map(|it| (it.from_ms, it.to_ms))
    }

    #[test]
    fn a_window_is_the_last_hour_by_default() {
        assert_eq!(of(None, None, None), Ok((NOW + 1 - 3_600_000, NOW + 1)));
        assert_eq!(of(Some(5), None, None), Ok((NOW - 4, NOW + 1)));
        assert_eq!(of(None, Some(7), None), Ok((7, NOW + 1)));
        assert_eq!(of(Some(5), None, Some(9)), Ok((4, 9)));
        assert_eq!(of(None, Some(7), Some(9)), Ok((7, 9)));
    }

    #[test]
    fn an_invalid_window_is_refused() {
        let refused = |window, from, to, part: &str| {
            let problem = of(window, from, to).unwrap_err();
            assert!(problem.detail().contains(part), "{}", problem.detail());
        };
        refused(Some(5), Some(5), None, "give one");
        refused(Some(0), None, None, "empty");
        refused(None, Some(9), Some(9), "empty");
        refused(None, Some(i64::MIN), Some(9), "longer than 1d");
        refused(Some(u64::MAX), None, None, "longer than 1d");
        assert!(interval(Some(Span::millis(0))).is_err());
        assert_eq!(interval(Some(Span::seconds(1))), Ok(Some(1000)));
    }

    #[test]
    fn statistics_contain_percentiles_on_request() {
        let summary = MetricStatistics { count: 2, min: 1.0, max: 2.5, mean: 1.75, percentiles: None };
        let percentiles = Some(Percentiles { p50: 1.0, p95: 2.5, p99: 2.5 });
        let metrics = vec![("a".into(), summary), ("b".into(), MetricStatistics { percentiles, ..summary })];
        let intervals = [IntervalStatistics { from_ms: 5, to_ms: 9, metrics }];
        let a = json!({"count": 2, "min": 1.0, "max": 2.5, "mean": 1.75});
        let b = json!({"count": 2, "min": 1.0, "max": 2.5, "mean": 1.75, "p50": 1.0, "p95": 2.5, "p99": 2.5});
        let expected = json!([{"from": 5, "to": 9, "metrics": {"a": a, "b": b}}]);
        assert_eq!(serde_json::to_value(Intervals(&intervals)).unwrap(), expected);
        assert_eq!(parts(&intervals), 2);
    }
}
