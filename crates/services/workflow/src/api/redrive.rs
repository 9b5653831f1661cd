//! Serves `PUT /api/instances/{instance}/redrives/{signal}`: sends a dead letter again.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Takes, reply};
use plimsoll_workflow::port::{Redrive, SignalKey, Store as _};
use plimsoll_workflow::step::is_id;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};

/// Sends a dead letter again.
pub struct RedriveLetter;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    by: String,
}

impl Endpoint<State> for RedriveLetter {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}/redrives/{signal}";
    const NAME: &'static str = "redrive";
    const SCOPE: Option<Scope> = Some(crate::scopes::OPERATE);
    const TAKES: Takes = Takes::Json;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let (instance, id) = (request::id(&call, "instance")?, request::id(&call, "signal")?);
        let Wanted { by } = request::body(&call)?;
        if !is_id(&by) {
            return Err(Problem::field("by", "name the operator: 1 to 512 bytes without control characters"));
        }
        let engine = &context.state.engine;
        let key = SignalKey { instance: instance.to_owned(), id: id.to_owned() };
        let redrive = Redrive { key, by, at_ms: engine.now_ms() };
        if engine.client.store.redrive(&[redrive]).await.map_err(problems::of_store)? == 0 {
            let detail =
                format!("`{instance}` has no dead letter `{id}`: it was sent again, or never existed");
            return Err(Problem::new(Kind::NotFound, detail));
        }
        Ok(reply::json(StatusCode::OK, &json!({"instance": instance, "signal": id})))
    }

    fn describe() -> Value {
        json!({
            "summary": "Send a dead letter again",
            "description": "The signal is delivered again, and the store remembers the operator. An instance that knows the signal ignores it.",
            "parameters": [in_path("instance", "The instance."), in_path("signal", "The id of the dead signal.")],
            "requestBody": body("Redrive"),
            "responses": responses(&[(200, "The signal is sent again.", Some("Redriven"))]),
        })
    }
}
