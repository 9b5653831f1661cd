//! Requests of one endpoint, by status, and how long they took.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

use super::histogram::Durations;
use super::page::Page;

/// The statuses that are answered; whatever else comes is counted under `other`.
const STATUSES: [u16; 18] =
    [200, 201, 204, 207, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 500, 503];
const REQUESTS: &str = "telemetry_http_requests_total";
const DURATION: &str = "telemetry_http_request_duration_seconds";

/// Counts the requests of one endpoint.
#[derive(Debug)]
pub struct Meter {
    name: &'static str,
    statuses: [AtomicU64; STATUSES.len() + 1],
    durations: Durations,
}

impl Meter {
    /// For the endpoint of that name.
    pub fn new(name: &'static str) -> Self {
        Self { name, statuses: Default::default(), durations: Durations::default() }
    }

    /// Counts a request.
    pub fn record(&self, status: StatusCode, ns: u64) {
        let known = STATUSES.iter().position(|known| *known == status.as_u16());
        self.statuses[known.unwrap_or(STATUSES.len())].fetch_add(1, Ordering::Relaxed);
        self.durations.record(ns);
    }

    /// Writes down all of them.
    pub fn write<'a>(meters: impl Iterator<Item = &'a Self> + Clone, page: &mut Page) {
        page.begin(REQUESTS, "counter", "Requests by endpoint and status.");
        meters.clone().for_each(|meter| meter.write_statuses(page));
        page.begin(DURATION, "histogram", "From the request's head to its answer, by endpoint.");
        for meter in meters {
            meter.durations.write(page, DURATION, &format!("endpoint=\"{}\"", meter.name));
        }
    }

    fn write_statuses(&self, page: &mut Page) {
        let names = STATUSES.iter().map(ToString::to_string).chain(["other".to_owned()]);
        for (status, count) in names.zip(&self.statuses) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(REQUESTS, &format!("endpoint=\"{}\",status=\"{status}\"", self.name), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_under_its_status() {
        let meter = Meter::new("ingest");
        for status in [StatusCode::CREATED, StatusCode::CREATED, StatusCode::IM_A_TEAPOT] {
            meter.record(status, 1_000_000);
        }
        let mut page = Page::default();
        Meter::write([&meter].into_iter(), &mut page);
        let text = page.text();
        for line in [
            "telemetry_http_requests_total{endpoint=\"ingest\",status=\"201\"} 2\n",
            "telemetry_http_requests_total{endpoint=\"ingest\",status=\"other\"} 1\n",
            "telemetry_http_request_duration_seconds_count{endpoint=\"ingest\"} 3\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
