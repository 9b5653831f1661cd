//! Counts the HTTP requests of a test by name.

use std::collections::BTreeMap;

use super::line::{Tags, tag};
use super::trend::{Room, Trend};
use crate::foreign::k6::metric::{Contains, TIME_NS};
use crate::foreign::value::{Of, Operation, Since, Times};

/// The maximum number of distinct names. A test with numbers in its URLs can make any number of names.
const NAMES_MAX: usize = 64;
/// The name under which requests beyond the maximum are counted together.
const OTHERS: &str = "(other requests)";
/// The maximum number of distinct classes of failures.
const CLASSES_MAX: usize = 32;
/// The class under which failures beyond the maximum are counted together.
const OTHER_FAILURES: &str = "other";
/// The percentiles of each request name.
const WANTED: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// Requests by name.
#[derive(Debug, Default)]
pub(super) struct Requests {
    named: BTreeMap<String, Request>,
    /// The failures of all requests, by class.
    errors: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Request {
    times: Trend,
    failed: u64,
    errors: BTreeMap<String, u64>,
}

impl Requests {
    /// The name of the request with these tags, with its method before an address.
    pub(super) fn name(&self, tags: &Tags<'_>) -> String {
        let (name, url, method) = (tag(tags, "name"), tag(tags, "url"), tag(tags, "method"));
        let name = match name {
            "" => format!("{method} {url}"),
            address if address == url => format!("{method} {url}"),
            name => name.to_owned(),
        };
        let full = self.named.len() >= NAMES_MAX && !self.named.contains_key(&name);
        if full { OTHERS.to_owned() } else { name }
    }

    /// Adds a request's duration, in milliseconds.
    pub(super) fn took(&mut self, name: &str, ms: f64, room: &mut Room) {
        self.of(name).times.record(ms, room);
    }

    /// Counts a failed request.
    pub(super) fn failed(&mut self, name: &str, tags: &Tags<'_>) {
        let class = match (tag(tags, "status"), tag(tags, "error_code")) {
            ("" | "0", code) => format!("error {code}"),
            (status, _) => format!("status {status}"),
        };
        count(&mut self.errors, &class);
        let request = self.of(name);
        request.failed += 1;
        count(&mut request.errors, &class);
    }

    fn of(&mut self, name: &str) -> &mut Request {
        let fresh = || Request { times: Trend::new(Contains::Time), failed: 0, errors: BTreeMap::new() };
        self.named.entry(name.to_owned()).or_insert_with(fresh)
    }

    /// The failures of all requests by class, and the figures of each name if there are several, over
    /// `seconds`.
    pub(super) fn close(self, seconds: f64) -> (BTreeMap<String, u64>, Vec<Operation>) {
        let several = self.named.len() > 1;
        let operation = |(name, request): (String, Request)| {
            let ns = request.times.into_distribution(&WANTED).times(TIME_NS);
            let count = ns.count.unwrap_or(0);
            Operation {
                name,
                count: Some(count),
                rate_per_s: (seconds > 0.0).then(|| count as f64 / seconds),
                failed: Some(request.failed),
                errors: request.errors,
                times: vec![Times { since: Since::Sent, of: Of::All, ns }],
            }
        };
        (self.errors, self.named.into_iter().filter(|_| several).map(operation).collect())
    }
}

fn count(errors: &mut BTreeMap<String, u64>, class: &str) {
    let known = errors.len() < CLASSES_MAX || errors.contains_key(class);
    *errors.entry(if known { class } else { OTHER_FAILURES }.to_owned()).or_default() += 1;
}
