//! Serves `PUT /api/instances/{instance}/cancellations/{signal}`: cancels an instance.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes};
use plimsoll_workflow::instance::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request;
use super::state::{Context, State};

/// Cancels an instance.
pub struct Cancel;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    reason: String,
}

impl Endpoint<State> for Cancel {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}/cancellations/{signal}";
    const NAME: &'static str = "cancel";
    const SCOPE: Option<Scope> = Some(crate::scopes::OPERATE);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let Wanted { reason } = request::body(&call)?;
        request::send(&context, &call, Body::Cancel { reason }).await
    }

    fn describe() -> Value {
        json!({
            "summary": "Cancel an instance",
            "description": "The instance undoes its completed calls that have a compensation, and ends as cancelled.",
            "parameters": [in_path("instance", "The instance."), in_path("signal", "The id of this request.")],
            "requestBody": body("Cancellation"),
            "responses": responses(&[
                (200, "The id was known: nothing changed.", Some("Sent")),
                (201, "The request is durable.", Some("Sent")),
            ]),
        })
    }
}
