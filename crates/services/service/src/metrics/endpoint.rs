//! Counts the requests of an endpoint by status, and measures them.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

use super::histogram::DurationHistogram;
use super::page::Page;

/// The counted statuses; all others count as `other`.
const STATUSES: [u16; 18] =
    [200, 201, 204, 207, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 500, 503];

/// The metrics of one endpoint.
#[derive(Debug)]
pub struct EndpointMetrics {
    name: &'static str,
    statuses: [AtomicU64; STATUSES.len() + 1],
    durations: DurationHistogram,
}

impl EndpointMetrics {
    /// The metrics of the endpoint `name`.
    pub fn new(name: &'static str) -> Self {
        Self { name, statuses: Default::default(), durations: DurationHistogram::default() }
    }

    /// Counts a request.
    pub fn record(&self, status: StatusCode, ns: u64) {
        let known = STATUSES.iter().position(|known| *known == status.as_u16());
        self.statuses[known.unwrap_or(STATUSES.len())].fetch_add(1, Ordering::Relaxed);
        self.durations.record(ns);
    }

    /// Writes the metrics of all endpoints; their names begin with `prefix`.
    pub fn write<'a>(prefix: &str, all: impl Iterator<Item = &'a Self> + Clone, page: &mut Page) {
        let requests = format!("{prefix}_http_requests_total");
        page.begin(&requests, "counter", "Requests by endpoint and status.");
        all.clone().for_each(|one| one.write_statuses(&requests, page));
        let duration = format!("{prefix}_http_request_duration_seconds");
        page.begin(&duration, "histogram", "From the request's head to its answer, by endpoint.");
        for one in all {
            one.durations.write(page, &duration, &format!("endpoint=\"{}\"", one.name));
        }
    }

    fn write_statuses(&self, requests: &str, page: &mut Page) {
        let names = STATUSES.iter().map(ToString::to_string).chain(["other".to_owned()]);
        for (status, count) in names.zip(&self.statuses) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(requests, &format!("endpoint=\"{}\",status=\"{status}\"", self.name), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_counts_under_its_status() {
        let metrics = EndpointMetrics::new("ingest");
        for status in [StatusCode::CREATED, StatusCode::CREATED, StatusCode::IM_A_TEAPOT] {
            metrics.record(status, 1_000_000);
        }
        let mut page = Page::default();
        EndpointMetrics::write("telemetry", [&metrics].into_iter(), &mut page);
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
