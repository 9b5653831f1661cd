//! Serves `POST /api/telemetry/ingest`: stores one reading.
//!
//! A retry is answered 201 too, so a client that lost the first answer gets the same status. The body shows the difference.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, InvalidField, Scope, Takes,
    openapi::{body, responses},
    reply,
};
use serde_json::{Value, json};

use super::state::{Context, State};
use crate::reading::Reading;

/// Stores one reading.
pub struct Ingest;

/// Names that other endpoints' paths use.
const RESERVED: [&str; 2] = ["ingest", "stats"];

impl Endpoint<State> for Ingest {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/telemetry/ingest";
    const NAME: &'static str = "ingest";
    const SCOPE: Option<Scope> = Some(crate::scopes::TELEMETRY_WRITE);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let limits = &context.state.accepted;
        let reading = allowed(Reading::parse(&call.body, context.clock.now_ms(), limits)?)?;
        let stored = context.state.readings.ingest(reading).await?;
        let body = format!(r#"{{"stored":"{}"}}"#, stored.name());
        Ok(reply::text(StatusCode::CREATED, "application/json", body))
    }

    fn describe() -> Value {
        json!({
            "summary": "Store one reading",
            "description": "The answer follows the acknowledgement at the configured write concern. A retry with the same \
                            sensor, timestamp and eventId counts once. It adds metrics that the stored reading lacks \
                            (`known, merged`); a stored metric keeps its value (`known, differs`).",
            "requestBody": body("Reading"),
            "responses": responses(&[(201, "The reading is stored, now or before.", Some("Stored"))]),
        })
    }
}

/// Refuses sensors with reserved names.
pub(super) fn allowed(reading: Reading) -> Result<Reading, InvalidField> {
    if RESERVED.contains(&reading.sensor.as_str()) {
        let reason =
            format!("must not be {}: these names are paths of other endpoints", RESERVED.join(" or "));
        return Err(InvalidField { field: "sensorId".into(), reason });
    }
    Ok(reading)
}
