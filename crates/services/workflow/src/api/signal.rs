//! Serves `PUT /api/instances/{instance}/signals/{signal}`: sends a signal.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes};
use plimsoll_workflow::instance::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request;
use super::state::{Context, State};

/// Sends a signal.
pub struct SendSignal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    #[serde(default)]
    body: Value,
}

impl Endpoint<State> for SendSignal {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}/signals/{signal}";
    const NAME: &'static str = "signal";
    const SCOPE: Option<Scope> = Some(crate::scopes::SIGNAL);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let Wanted { name, body } = request::body(&call)?;
        request::send(&context, &call, Body::Named { name, body }).await
    }

    fn describe() -> Value {
        json!({
            "summary": "Send a signal",
            "description": "The instance applies the signal once. A repeated signal is answered 200. It is recognised while it waits, among the last 64 of the instance, and for at least \
                            15 minutes after 64 others have followed it: repeat no signal later. The instance keeps a signal that comes before its wait. A \
                            signal to an unknown or ended instance becomes a dead letter.",
            "parameters": [
                in_path("instance", "The instance."),
                in_path("signal", "The id of the signal, chosen by the caller: a repetition has the same id."),
            ],
            "requestBody": body("Signal"),
            "responses": responses(&[
                (200, "The store has the id: nothing changed.", Some("Sent")),
                (201, "The signal is durable.", Some("Sent")),
            ]),
        })
    }
}
