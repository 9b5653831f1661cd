//! `POST /api/telemetry/ingest`: one reading.
//!
//! A reading that is sent again is answered 201 as well: whoever sends again because an answer was lost gets the answer that
//! was lost. The body tells the difference.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::{
    Answer, Call, Endpoint, InvalidField, Scope, Takes,
    openapi::{body, responses},
    reply,
};
use serde_json::{Value, json};

use super::scopes;
use super::state::{Context, State};
use crate::reading::Reading;
use crate::readings::Stored;

/// Takes one reading.
pub struct Ingest;

/// Sensors of these names could not be asked for: their paths are those of other endpoints.
const RESERVED: [&str; 2] = ["ingest", "stats"];

impl Endpoint<State> for Ingest {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/telemetry/ingest";
    const NAME: &'static str = "ingest";
    const SCOPE: Option<Scope> = Some(scopes::TELEMETRY_WRITE);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let limits = &context.state.accepted;
        let reading = allowed(Reading::parse(&call.body, context.clock.now_ms(), limits)?)?;
        let body = match context.state.readings.ingest(reading).await? {
            Stored::New => r#"{"stored":"new"}"#,
            Stored::Known => r#"{"stored":"known"}"#,
        };
        Ok(reply::text(StatusCode::CREATED, "application/json", body))
    }

    fn describe() -> Value {
        json!({
            "summary": "Store one reading",
            "description": "It is answered when it is acknowledged at the configured write concern. Sent again with the \
                            same sensor, timestamp and eventId it counts once.",
            "requestBody": body("Reading"),
            "responses": responses(&[(201, "It is stored, now or before.", Some("Stored"))]),
        })
    }
}

/// A reading that can be asked for later.
pub(super) fn allowed(reading: Reading) -> Result<Reading, InvalidField> {
    if RESERVED.contains(&reading.sensor.as_str()) {
        let reason = format!("must not be {}: these are other paths", RESERVED.join(" or "));
        return Err(InvalidField { field: "sensorId".into(), reason });
    }
    Ok(reading)
}
