//! Serves `GET /api/telemetry/{sensor}/latest`: the newest reading of a sensor.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, Kind, Problem, Scope, Takes,
    openapi::{in_path, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};

/// Reads the newest reading.
pub struct Latest;

impl Endpoint<State> for Latest {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/telemetry/{sensor}/latest";
    const NAME: &'static str = "latest";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let sensor = call.name("sensor")?;
        call.query(&[])?;
        let _running = context.state.queries.begin().await?;
        let latest = context.state.readings.latest(sensor).await?;
        let latest = latest
            .ok_or_else(|| Problem::new(Kind::NotFound, "no reading of this sensor has been stored"))?;
        Ok(reply::json(StatusCode::OK, &latest.to_json()))
    }

    fn describe() -> Value {
        json!({
            "summary": "The newest reading of a sensor",
            "description": "By timestamp, not by arrival.",
            "parameters": [in_path("sensor", "The sensor.")],
            "responses": responses(&[(200, "The reading.", Some("Reading"))]),
        })
    }
}
