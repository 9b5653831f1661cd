//! `GET /metrics`: what the service counts, for Prometheus.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::responses;
use crate::readings::{Counters, Histogram};
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::metrics::{Meter, Page};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Tells what is counted.
pub struct Metrics;

impl Endpoint for Metrics {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/metrics";
    const NAME: &'static str = "metrics";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(service: Arc<Service>, _: Call) -> Answer {
        let mut page = Page::default();
        Meter::write(service.meters.iter().map(AsRef::as_ref), &mut page);
        gauges(&service, &mut page);
        readings(&service.readings.counters(), &mut page);
        service.pool.write(&mut page);
        Ok(reply::text(StatusCode::OK, Page::TYPE, page.text()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Metrics for Prometheus",
            "description": "Requests and how long they took, commits of readings, and how long operations waited for a \
                            connection of the driver's pool.",
            "responses": responses(&[(200, "The metrics.", None)]),
        })
    }
}

fn gauges(service: &Service, page: &mut Page) {
    let free = |permits: usize, most: u32| (most as usize).saturating_sub(permits);
    let limits = &service.limits;
    let requests = free(service.requests.available_permits(), limits.requests_max);
    page.single("telemetry_http_requests_in_flight", "gauge", "Requests that are worked on.", requests);
    let connections = free(service.connections().available_permits(), limits.connections_max);
    page.single("telemetry_http_connections", "gauge", "Connections of clients.", connections);
    let bytes = service.budget.taken_bytes();
    page.single("telemetry_http_body_bytes", "gauge", "Bytes of bodies in memory.", bytes);
    let bytes = service.answers.taken_bytes();
    page.single("telemetry_http_answer_bytes", "gauge", "Bytes of answers until they are sent.", bytes);
    let uptime_s = service.clock.now_ns() as f64 / 1e9;
    page.single("telemetry_uptime_seconds", "gauge", "How long the service has run.", uptime_s);
}

fn readings(counters: &Counters, page: &mut Page) {
    const STORED: &str = "telemetry_readings_total";
    page.begin(STORED, "counter", "Readings by what became of them.");
    for (outcome, count) in [
        ("new", counters.new),
        ("known", counters.known),
        ("failed", counters.failed),
        ("busy", counters.busy),
    ] {
        page.sample(STORED, &format!("outcome=\"{outcome}\""), count);
    }
    page.single("telemetry_readings_accepted_total", "counter", "Readings taken in.", counters.accepted);
    page.single(
        "telemetry_readings_queued",
        "gauge",
        "Readings that wait or are in flight.",
        counters.queued,
    );
    const SIZE: &str = "telemetry_commit_readings";
    page.begin(SIZE, "histogram", "Readings in each commit.");
    histogram(&counters.commit_readings, SIZE, 1.0, page);
    const TIME: &str = "telemetry_commit_seconds";
    page.begin(TIME, "histogram", "What the store took for each commit.");
    histogram(&counters.store_us, TIME, 1e-6, page);
}

/// A histogram of steps of powers of two, its values multiplied by `unit`.
fn histogram(histogram: &Histogram, name: &str, unit: f64, page: &mut Page) {
    let step = |(step, count): (usize, &u64)| {
        let bound = Histogram::bound(step)? as f64 * unit;
        // What a power of two of microseconds is in seconds has at most so many digits.
        let bound = format!("{bound:.6}");
        Some((bound.trim_end_matches('0').trim_end_matches('.').to_owned(), *count))
    };
    let steps = histogram.steps.iter().enumerate().filter_map(step);
    page.histogram(name, "", steps, histogram.count(), histogram.sum as f64 * unit);
}
