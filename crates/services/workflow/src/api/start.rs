//! Serves `PUT /api/instances/{instance}`: starts an instance.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Takes};
use plimsoll_workflow::instance::StartRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};
use crate::engine::key_fault;

/// Starts an instance.
pub struct Start;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    definition: String,
    key: Option<String>,
    #[serde(default)]
    input: Value,
}

impl Endpoint<State> for Start {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}";
    const NAME: &'static str = "start";
    const SCOPE: Option<Scope> = Some(crate::scopes::START);
    const TAKES: Takes = Takes::Json;
    const REFUSES: &'static [Kind] = &[Kind::NotFound, Kind::Conflict];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let id = request::id(&call, "instance")?.to_owned();
        let Wanted { definition, key, input } = request::body(&call)?;
        if let Some(fault) = key.as_deref().and_then(key_fault) {
            return Err(Problem::field("key", fault));
        }
        let answer = json!({"instance": id, "definition": definition});
        let wanted = StartRequest { id, definition, key, parent: None, depth: 0, input };
        let started = context.state.engine.start(wanted).await.map_err(problems::of_client)?;
        request::inserted(started, answer)
    }

    fn describe() -> Value {
        json!({
            "summary": "Start an instance",
            "description": "The instance runs on the latest version of the definition. An existing instance with the id stays as it is, also if the input differs; \
                            with another definition or key the request is refused.",
            "parameters": [in_path("instance", "The id, chosen by the caller: 1 to 512 bytes. Ids that end in `/` and a number are the engine's own.")],
            "requestBody": body("Start"),
            "responses": responses(&[
                (200, "The id was known: nothing changed.", Some("Started")),
                (201, "The instance is durable.", Some("Started")),
            ]),
        })
    }
}
