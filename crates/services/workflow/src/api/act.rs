//! Serves `PUT /api/instances/{instance}/tasks/{visit}/acts/{signal}`: acts on a task.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Problem, Scope, Takes};
use plimsoll_workflow::instance::{Act, Body};
use serde::Deserialize;
use serde_json::{Value, json};

use super::request;
use super::state::{Context, State};

/// Assigns, releases, reassigns or completes a task.
pub struct ActOnTask;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    by: String,
    #[serde(default)]
    roles: Vec<String>,
    act: Act,
}

impl Endpoint<State> for ActOnTask {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/instances/{instance}/tasks/{visit}/acts/{signal}";
    const NAME: &'static str = "act";
    const SCOPE: Option<Scope> = Some(crate::scopes::TASK);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        let visit = request::id(&call, "visit")?.parse();
        let visit = visit.map_err(|_| Problem::field("visit", "is no number: send `visit` of the task"))?;
        let Wanted { by, roles, act } = request::body(&call)?;
        request::send(&context, &call, Body::Act { visit, by, roles, act }).await
    }

    fn describe() -> Value {
        json!({
            "summary": "Act on a task",
            "description": "The caller vouches for the person and the roles. A refusal, such as an invalid payload, is in `refused` of the task. An \
                            act on a task that is over becomes a dead letter.",
            "parameters": [
                in_path("instance", "The instance."),
                in_path("visit", "`visit` of the task."),
                in_path("signal", "The id of this request."),
            ],
            "requestBody": body("Act"),
            "responses": responses(&[
                (200, "The store has the id: nothing changed.", Some("Sent")),
                (201, "The request is durable.", Some("Sent")),
            ]),
        })
    }
}
