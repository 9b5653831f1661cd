//! How much of everything the service takes before it says no.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// The limits. Beyond them a request is answered with 4xx before memory grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at once; further ones wait in the kernel's queue.
    pub connections_max: u32,
    /// Requests worked on at once; a further one is answered 429.
    pub requests_max: u32,
    /// Bytes of all request bodies in memory at once; a further one is answered 429.
    pub bodies_bytes_max: u32,
    /// Bytes that answers take at once, from what is read for them until they are sent: statistics, ranges, feeds; a further
    /// one is answered 429.
    pub answers_bytes_max: u32,
    /// Bytes of an ordinary body.
    pub body_bytes_max: u32,
    /// Bytes of the body of a batch of readings.
    pub batch_bytes_max: u32,
    /// Readings in one batch.
    pub batch_readings_max: u32,
    /// Bytes of a request's head.
    pub head_bytes_max: u32,
    /// Readings or activities on one page.
    pub page_max: u32,
    /// Sensors in one call for statistics.
    pub sensors_max: u32,
    /// Intervals of each sensor in one call for statistics.
    pub intervals_max: u32,
    /// Summaries in one call for statistics: a metric in an interval of a sensor is one.
    pub summaries_max: u32,
    /// The longest window of a call for statistics.
    pub window_max: Span,
    /// How long a request's head may take; a connection that is silent so long is closed.
    pub idle: Span,
    /// How long a request's body may take.
    pub body: Span,
    /// How long a client may refuse to read its answer, and a TLS handshake take.
    pub stall: Span,
    /// How long a request may be worked on.
    pub request: Span,
    /// How long accepted requests are given when the service is asked to end.
    pub drain: Span,
    /// How many requests each key, or each address where there is no security, may send; no limit if absent.
    pub rate: Option<Rate>,
}

/// A rate limit for each caller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests a second that are sustained.
    pub per_s: f64,
    /// Requests that may come at once.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 2_048,
            requests_max: 4_096,
            bodies_bytes_max: 64 << 20,
            answers_bytes_max: 256 << 20,
            body_bytes_max: 64 << 10,
            batch_bytes_max: 8 << 20,
            batch_readings_max: 10_000,
            head_bytes_max: 16 << 10,
            page_max: 1_000,
            sensors_max: 100,
            intervals_max: 10_000,
            summaries_max: 50_000,
            window_max: Span::seconds(31 * 86_400),
            idle: Span::seconds(60),
            body: Span::seconds(10),
            stall: Span::seconds(20),
            request: Span::seconds(30),
            drain: Span::seconds(30),
            rate: None,
        }
    }
}

impl Limits {
    /// What contradicts itself in them.
    pub(super) fn fault(&self) -> Option<String> {
        let least = [
            ("connections_max", self.connections_max),
            ("requests_max", self.requests_max),
            ("body_bytes_max", self.body_bytes_max),
            ("batch_readings_max", self.batch_readings_max),
            ("page_max", self.page_max),
            ("sensors_max", self.sensors_max),
            ("intervals_max", self.intervals_max),
            ("summaries_max", self.summaries_max),
        ];
        if let Some((name, _)) = least.iter().find(|(_, value)| *value == 0) {
            return Some(format!("{name} is 0: nothing could be served; give it 1 or more"));
        }
        if self.head_bytes_max < HEAD_BYTES_MIN {
            return Some(format!("head_bytes_max is too small: give it {HEAD_BYTES_MIN} or more"));
        }
        if self.bodies_bytes_max < self.batch_bytes_max.max(self.body_bytes_max) {
            return Some("bodies_bytes_max is smaller than one body: give it batch_bytes_max or more".into());
        }
        if self.answers_bytes_max < ANSWERS_BYTES_MIN {
            return Some(format!("answers_bytes_max is too small: give it {ANSWERS_BYTES_MIN} or more"));
        }
        if self.idle < self.request {
            return Some(
                "idle is shorter than request: slow answers would be cut off; give it request or more".into(),
            );
        }
        let bad = |rate: &Rate| !rate.per_s.is_finite() || rate.per_s < RATE_MIN || rate.burst == 0;
        self.rate.as_ref().filter(|rate| bad(rate)).map(|_| {
            format!("rate needs per_s of {RATE_MIN} or more and a burst of 1 or more; leave it out for none")
        })
    }
}

/// The HTTP library reads heads in pieces of this size.
const HEAD_BYTES_MIN: u32 = 8_192;
/// What an ordinary answer takes, with room to spare.
const ANSWERS_BYTES_MIN: u32 = 64 << 10;
/// The slowest rate, in requests a second.
const RATE_MIN: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_would_serve_nothing_are_refused() {
        let check = |change: fn(&mut Limits), part: &str| {
            let mut limits = Limits::default();
            change(&mut limits);
            assert!(limits.fault().is_some_and(|fault| fault.contains(part)), "{part}");
        };
        assert_eq!(Limits::default().fault(), None);
        check(|limits| limits.requests_max = 0, "requests_max is 0");
        check(|limits| limits.page_max = 0, "page_max is 0");
        check(|limits| limits.head_bytes_max = 100, "8192 or more");
        check(|limits| limits.bodies_bytes_max = 1_000, "smaller than one body");
        check(|limits| limits.answers_bytes_max = 1_000, "65536 or more");
        check(|limits| limits.summaries_max = 0, "summaries_max is 0");
        check(|limits| limits.idle = Span::seconds(1), "cut off");
        check(|limits| limits.rate = Some(Rate { per_s: 0.0, burst: 1 }), "burst of 1 or more");
        check(|limits| limits.rate = Some(Rate { per_s: f64::NAN, burst: 1 }), "burst of 1 or more");
    }
}
