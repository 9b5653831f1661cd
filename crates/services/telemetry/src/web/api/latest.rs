//! `GET /api/telemetry/{sensor}/latest`: the newest reading of a sensor.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::{in_path, responses};
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::problem::{Kind, Problem};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Tells the newest reading.
pub struct Latest;

impl Endpoint for Latest {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/telemetry/{sensor}/latest";
    const NAME: &'static str = "latest";
    const SCOPE: Option<Scope> = Some(Scope::TelemetryRead);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(service: Arc<Service>, call: Call) -> Answer {
        let sensor = call.name("sensor")?;
        call.query(&[])?;
        let latest = service.readings.latest(sensor).await?;
        let latest = latest
            .ok_or_else(|| Problem::new(Kind::NotFound, "no reading of this sensor has been stored"))?;
        Ok(reply::json(StatusCode::OK, &latest.to_json()))
    }

    fn describe() -> Value {
        json!({
            "summary": "The newest reading of a sensor",
            "description": "By its timestamp, not by when it came.",
            "parameters": [in_path("sensor", "The sensor.")],
            "responses": responses(&[(200, "The reading.", Some("Reading"))]),
        })
    }
}
