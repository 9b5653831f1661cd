//! Serves `PUT /api/instances/{instance}/retries/{signal}`: lets a parked instance try again.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes};
use plimsoll_workflow::instance::Body;
use serde_json::{Value, json};

use super::request;
use super::state::{Context, State};

/// Lets a parked or quarantined instance try again.
pub struct Retry;

impl Endpoint<State> for Retry {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}/retries/{signal}";
    const NAME: &'static str = "retry";
    const SCOPE: Option<Scope> = Some(crate::scopes::OPERATE);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        request::send(&context, &call, Body::Retry).await
    }

    fn describe() -> Value {
        json!({
            "summary": "Retry a parked instance",
            "description": "A call whose attempts are used up gets one more. A request to an instance that is neither parked nor quarantined becomes \
                            a dead letter.",
            "parameters": [in_path("instance", "The instance."), in_path("signal", "The id of this request.")],
            "responses": responses(&[
                (200, "The id was known: nothing changed.", Some("Sent")),
                (201, "The request is durable.", Some("Sent")),
            ]),
        })
    }
}
