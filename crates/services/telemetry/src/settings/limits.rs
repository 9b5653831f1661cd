//! Defines the section `limits`: the limits of HTTP, and of a single request.

use plimsoll_service::limits::{Limits as HttpLimits, zero};
use plimsoll_service::part::both;
use plimsoll_service::{Span, part};
use serde::{Deserialize, Deserializer, Serialize};

/// The section `limits`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// The limits of HTTP.
    #[serde(flatten)]
    pub http: HttpLimits,
    /// The limits of a single request.
    #[serde(flatten)]
    pub request: RequestLimits,
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        both(deserializer).map(|(http, request)| Self { http, request })
    }
}

/// The limits of a single request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestLimits {
    /// The largest number of readings in one batch.
    pub batch_readings_max: u32,
    /// The largest number of queries that run at the same time; a further query waits.
    pub queries_max: u32,
    /// The time that a query waits for its turn; then it is answered 429.
    pub query_wait: Span,
    /// The largest number of readings or activities on one page.
    pub page_max: u32,
    /// The largest number of sensors in one call for statistics.
    pub sensors_max: u32,
    /// The largest number of intervals of each sensor in one call for statistics.
    pub intervals_max: u32,
    /// The largest number of summaries in one call for statistics: one for each metric of a sensor in an
    /// interval.
    pub summaries_max: u32,
    /// The longest window of a call for statistics.
    pub window_max: Span,
}

part!(RequestLimits {
    batch_readings_max,
    queries_max,
    query_wait,
    page_max,
    sensors_max,
    intervals_max,
    summaries_max,
    window_max,
});

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            batch_readings_max: 10_000,
            queries_max: 8,
            query_wait: Span::seconds(5),
            page_max: 1_000,
            sensors_max: 100,
            intervals_max: 10_000,
            summaries_max: 50_000,
            window_max: Span::seconds(31 * 86_400),
        }
    }
}

impl RequestLimits {
    /// The reason why the limits are invalid, or `None`.
    pub(super) fn fault(&self) -> Option<String> {
        zero(&[
            ("batch_readings_max", self.batch_readings_max),
            ("queries_max", self.queries_max),
            ("page_max", self.page_max),
            ("sensors_max", self.sensors_max),
            ("intervals_max", self.intervals_max),
            ("summaries_max", self.summaries_max),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_allow_no_request_are_refused() {
        assert_eq!(RequestLimits::default().fault(), None);
        let limits = RequestLimits { summaries_max: 0, ..RequestLimits::default() };
        assert!(limits.fault().is_some_and(|fault| fault.contains("summaries_max is 0")));
    }

    #[test]
    fn an_unknown_or_invalid_limit_is_named() {
        let check = |text: &str, part: &str| {
            let error = plimsoll_service::settings::read::<Limits>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("page_mxa: 1", "line 1, column 1: unknown key `page_mxa`: did you mean `page_max`?");
        check("page_max: many", "line 1, column 11: `page_max`: write a whole number from 0 to 4294967295");
        check("drain: 1s\nidle: 5", "line 2, column 7: `idle`: `5` is not a duration");
        check("rate: {per_s: 1, brst: 2}", "line 1, column 18: unknown key `brst`");
        let limits: Limits =
            plimsoll_service::settings::read("rate: {per_s: 1, burst: 2}\npage_max: 7").unwrap();
        assert_eq!((limits.http.rate.unwrap().per_s, limits.request.page_max), (1.0, 7));
    }
}
