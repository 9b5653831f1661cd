//! Serves the endpoints of every service: `/healthz`, `/readyz`, `/metrics`, `/openapi.json`.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::body::Takes;
use crate::context::{Context, State};
use crate::endpoint::{Call, Endpoint};
use crate::metrics::{EndpointMetrics, Page};
use crate::openapi::responses;
use crate::problem::{Kind, Problem};
use crate::reply::{self, Answer};
use crate::routes::Routes;
use crate::security::Scope;

/// Adds the standard endpoints.
pub(crate) fn add<S: State>(routes: Routes<S>) -> Routes<S> {
    routes.with::<Healthz>().with::<Readyz>().with::<Metrics>().with::<OpenApi>()
}

struct Healthz;

impl<S: State> Endpoint<S> for Healthz {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/healthz";
    const NAME: &'static str = "healthz";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(_: Arc<Context<S>>, _: Call) -> Answer {
        Ok(reply::json(StatusCode::OK, &json!({"status": "ok"})))
    }

    fn describe() -> Value {
        let about =
            format!("It does not check {}: a service that waits for it needs no restart.", S::DEPENDENCY);
        json!({
            "summary": "Whether the process works",
            "description": about,
            "responses": responses(&[(200, "The process works.", None)]),
        })
    }
}

struct Readyz;

impl<S: State> Endpoint<S> for Readyz {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/readyz";
    const NAME: &'static str = "readyz";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::Unavailable];

    async fn answer(context: Arc<Context<S>>, _: Call) -> Answer {
        if context.is_stopping() {
            return Err(Problem::new(Kind::Unavailable, "the service is stopping"));
        }
        match context.unready().await {
            None => Ok(reply::json(StatusCode::OK, &json!({"status": "ready"}))),
            Some(fault) => {
                tracing::warn!(%fault, "not ready");
                Err(Problem::new(Kind::Unavailable, format!("{} does not answer", S::DEPENDENCY)))
            }
        }
    }

    fn describe() -> Value {
        let ready =
            format!("The service can answer: {} responds, and the service is not stopping.", S::DEPENDENCY);
        json!({
            "summary": "Whether requests can be answered",
            "responses": responses(&[(200, &ready, None)]),
        })
    }
}

struct Metrics;

impl<S: State> Endpoint<S> for Metrics {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/metrics";
    const NAME: &'static str = "metrics";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::Busy];

    async fn answer(context: Arc<Context<S>>, _: Call) -> Answer {
        let mut page = Page::default();
        EndpointMetrics::write(context.metrics_prefix, context.metrics.iter().map(AsRef::as_ref), &mut page);
        gauges(&context, &mut page);
        context.state.write_metrics(&mut page);
        Ok(reply::text(StatusCode::OK, Page::TYPE, page.text()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Metrics for Prometheus",
            "description": "Requests and their duration by endpoint, and the metrics of the service itself.",
            "responses": responses(&[(200, "The metrics.", None)]),
        })
    }
}

fn gauges<S: State>(context: &Context<S>, page: &mut Page) {
    let used = |free: usize, max: u32| (max as usize).saturating_sub(free) as f64;
    let limits = &context.limits;
    let answered = [&context.requests, &context.open_streams]
        .map(|places| used(places.available_permits(), limits.requests_max));
    let in_flight = answered.iter().sum::<f64>() + context.arrivals.count() as f64;
    for (name, help, value) in [
        ("http_requests_in_flight", "Requests in flight.", in_flight),
        (
            "http_connections",
            "Connections of clients.",
            used(context.connections.available_permits(), limits.connections_max),
        ),
        (
            "http_body_bytes",
            "Bytes of request bodies in memory.",
            (context.bodies.taken_bytes() + context.streams.taken_bytes()) as f64,
        ),
        ("http_answer_bytes", "Bytes of answers until they are sent.", context.answers.taken_bytes() as f64),
        ("uptime_seconds", "Time since the start.", context.clock.now_ns() as f64 / 1e9),
    ] {
        page.single(&format!("{}_{name}", context.metrics_prefix), "gauge", help, value);
    }
}

struct OpenApi;

impl<S: State> Endpoint<S> for OpenApi {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/openapi.json";
    const NAME: &'static str = "openapi";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context<S>>, _: Call) -> Answer {
        Ok(reply::shared("application/json", context.openapi.clone()))
    }

    fn describe() -> Value {
        json!({
            "summary": "This description",
            "responses": responses(&[(200, "OpenAPI 3.1.", None)]),
        })
    }
}
