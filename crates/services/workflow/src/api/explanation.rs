//! Serves `GET /api/instances/{instance}/explanation`: the reasons why an instance waits.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Scope, Takes, reply};
use plimsoll_workflow::explain;
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};

/// Explains why an instance waits.
pub struct Explain;

impl Endpoint<State> for Explain {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/instances/{instance}/explanation";
    const NAME: &'static str = "explain";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let record = request::record(&context, &call).await?;
        let engine = &context.state.engine;
        let program = engine.program(&record.definition).await.map_err(problems::of_store)?;
        let explained = explain::of(&*engine.client.store, program.as_deref(), &record.id).await;
        let explained = explained.map_err(problems::of_store)?;
        Ok(reply::json(StatusCode::OK, &serde_json::to_value(explained).unwrap_or_default()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Explain why an instance waits",
            "description": "Each reason with its step, attempt and next moment, and the process that owns the instance.",
            "parameters": [in_path("instance", "The id.")],
            "responses": responses(&[(200, "The reasons.", Some("Explanation"))]),
        })
    }
}
