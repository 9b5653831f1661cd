//! `POST /api/telemetry/ingest`: one reading.
//!
//! A reading that is sent again is answered 201 as well: whoever sends again because an answer was lost gets the answer that
//! was lost. The body tells the difference.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::{body, responses};
use crate::reading::{Invalid, Reading};
use crate::readings::Stored;
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Takes one reading.
pub struct Ingest;

/// Sensors of these names could not be asked for: their paths are those of other endpoints.
const RESERVED: [&str; 2] = ["ingest", "stats"];

impl Endpoint for Ingest {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/api/telemetry/ingest";
    const NAME: &'static str = "ingest";
    const SCOPE: Option<Scope> = Some(Scope::TelemetryWrite);
    const TAKES: Takes = Takes::Json;

    async fn answer(service: Arc<Service>, call: Call) -> Answer {
        call.query(&[])?;
        let limits = &service.taken;
        let reading = allowed(Reading::parse(&call.body, service.clock.now_ms(), limits)?)?;
        let body = match service.readings.ingest(reading).await? {
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
pub(super) fn allowed(reading: Reading) -> Result<Reading, Invalid> {
    if RESERVED.contains(&reading.sensor.as_str()) {
        let reason = format!("must not be {}: these are other paths", RESERVED.join(" or "));
        return Err(Invalid { field: "sensorId".into(), reason });
    }
    Ok(reading)
}
