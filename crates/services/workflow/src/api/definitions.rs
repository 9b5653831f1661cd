//! Serves `GET /api/definitions`: lists the definitions.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::responses;
use plimsoll_service::{Answer, Call, Endpoint, Scope, Takes, reply};
use plimsoll_workflow::definition::Definition;
use serde_json::{Value, json};

use super::problems;
use super::state::{Context, State};

/// Lists the versions of all definitions.
pub struct Definitions;

impl Endpoint<State> for Definitions {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/definitions";
    const NAME: &'static str = "definitions";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let definitions = context.state.engine.refresh().await.map_err(problems::of_store)?;
        let one = |definition: &Definition| json!({"definition": definition.version(), "description": definition.description});
        let all: Vec<_> = definitions.iter().map(one).collect();
        Ok(reply::json(StatusCode::OK, &json!({"definitions": all})))
    }

    fn describe() -> Value {
        json!({
            "summary": "List definitions",
            "description": "Every version, the latest deployed last.",
            "responses": responses(&[(200, "The definitions.", Some("Definitions"))]),
        })
    }
}
