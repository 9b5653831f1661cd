//! Defines the limits of an HTTP service: connections, requests, memory, sizes, times and rates.

use serde::{Deserialize, Serialize};

use crate::part;
use crate::span::Span;

/// The limits. A request above them is answered with 4xx before memory grows. A service with further limits reads this struct as
/// one [`Part`](crate::part::Part) of its section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The largest number of open connections; further connections wait in the kernel's queue.
    pub connections_max: u32,
    /// The largest number of concurrent requests on one HTTP/2 connection; further requests of the client
    /// wait.
    pub streams_max: u32,
    /// The largest number of requests that are answered at a time; a further request is answered 429. As many streams may be open,
    /// and as many bodies may arrive. A further body is answered 429, unless the oldest has taken half of `body`: then the oldest
    /// makes room, and is answered 429.
    pub requests_max: u32,
    /// The largest size of all request bodies in memory, in bytes; a further body is answered 429. Streams
    /// have a separate limit of the same size, so that they keep no other body out.
    pub bodies_bytes_max: u32,
    /// The largest size of all answers in memory, in bytes, from the data read for them until they are sent;
    /// a further answer becomes a 429. Short answers and `/metrics` may exceed it a little. One connection holds at most a
    /// quarter of it.
    pub answers_bytes_max: u32,
    /// The largest ordinary body, in bytes.
    pub body_bytes_max: u32,
    /// The largest body of a batch, in bytes.
    pub batch_bytes_max: u32,
    /// The largest head of a request, in bytes.
    pub head_bytes_max: u32,
    /// The time limit for a request's head; an idle connection is closed after it.
    pub idle: Span,
    /// The time limit for a request's body, or for a line of a stream.
    pub body: Span,
    /// The time limit for a connection to take any byte of its answers, and for a TLS handshake.
    pub stall: Span,
    /// The time that a client gets for a whole answer. Before twice this time the HTTP/2 stream or the HTTP/1 connection is closed.
    pub send: Span,
    /// The time limit for the answer to a request.
    pub request: Span,
    /// The time that accepted requests get on shutdown.
    pub drain: Span,
    /// The request rate of each key, or of each address without security; unlimited if absent.
    pub rate: Option<Rate>,
}

part!(Limits {
    connections_max,
    streams_max,
    requests_max,
    bodies_bytes_max,
    answers_bytes_max,
    body_bytes_max,
    batch_bytes_max,
    head_bytes_max,
    idle,
    body,
    stall,
    send,
    request,
    drain,
    rate,
});

/// A rate limit for each caller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Sustained requests a second.
    pub per_s: f64,
    /// The number of requests that a caller may send at once.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 2_048,
            streams_max: 100,
            requests_max: 4_096,
            bodies_bytes_max: 64 << 20,
            answers_bytes_max: 256 << 20,
            body_bytes_max: 64 << 10,
            batch_bytes_max: 8 << 20,
            head_bytes_max: 16 << 10,
            idle: Span::seconds(60),
            body: Span::seconds(10),
            stall: Span::seconds(20),
            send: Span::seconds(60),
            request: Span::seconds(30),
            drain: Span::seconds(30),
            rate: None,
        }
    }
}

impl Limits {
    /// The reason why the limits are invalid, or `None`.
    pub fn fault(&self) -> Option<String> {
        let counts = [
            ("connections_max", self.connections_max),
            ("streams_max", self.streams_max),
            ("requests_max", self.requests_max),
            ("body_bytes_max", self.body_bytes_max),
        ];
        if let Some(fault) = zero(&counts) {
            return Some(fault);
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
        if self.send == Span::millis(0) {
            return Some("send is 0ms: no client could take an answer; give it 1s or more".into());
        }
        if self.idle < self.request {
            return Some(
                "idle is shorter than request: slow answers would be cut off; set it to request or more"
                    .into(),
            );
        }
        self.rate.as_ref().and_then(|rate| rate.fault("rate"))
    }
}

impl Rate {
    /// The reason why the rate is invalid, or `None`. `name` is that of the setting.
    pub fn fault(&self, name: &str) -> Option<String> {
        let bad = !self.per_s.is_finite() || self.per_s < RATE_MIN || self.burst == 0;
        bad.then(|| {
            format!("{name} needs per_s of {RATE_MIN} or more and a burst of 1 or more; omit it for no limit")
        })
    }
}

/// The first of these limits that is 0, as an error text.
pub fn zero(limits: &[(&str, u32)]) -> Option<String> {
    let (name, _) = limits.iter().find(|(_, limit)| *limit == 0)?;
    Some(format!("{name} is 0: the service could answer nothing; give it 1 or more"))
}

/// The smallest `head_bytes_max`: the HTTP library reads heads in pieces of this size.
const HEAD_BYTES_MIN: u32 = 8_192;
/// The smallest `answers_bytes_max`: the quarter of a connection holds an ordinary answer with room to spare.
const ANSWERS_BYTES_MIN: u32 = 256 << 10;
/// The slowest rate, in requests a second.
const RATE_MIN: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_would_answer_nothing_are_refused() {
        let check = |change: fn(&mut Limits), part: &str| {
            let mut limits = Limits::default();
            change(&mut limits);
            assert!(limits.fault().is_some_and(|fault| fault.contains(part)), "{part}");
        };
        assert_eq!(Limits::default().fault(), None);
        check(|limits| limits.requests_max = 0, "requests_max is 0");
        check(|limits| limits.send = Span::millis(0), "send is 0ms");
        check(|limits| limits.head_bytes_max = 100, "8192 or more");
        check(|limits| limits.bodies_bytes_max = 1_000, "smaller than one body");
        check(|limits| limits.answers_bytes_max = 1_000, "262144 or more");
        check(|limits| limits.idle = Span::seconds(1), "cut off");
        check(|limits| limits.rate = Some(Rate { per_s: 0.0, burst: 1 }), "burst of 1 or more");
        check(|limits| limits.rate = Some(Rate { per_s: f64::NAN, burst: 1 }), "burst of 1 or more");
    }
}
