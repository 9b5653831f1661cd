//! Serves `GET /api/instances/{instance}`: an instance with its history.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Takes, reply};
use plimsoll_workflow::port::Record;
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};
use crate::view::Instance;

/// Reads an instance.
pub struct OneInstance;

impl Endpoint<State> for OneInstance {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/instances/{instance}";
    const NAME: &'static str = "instance";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let record = request::record(&context, &call).await?;
        let instance = shown(&context, &record).await?;
        Ok(reply::json(StatusCode::OK, &serde_json::to_value(instance).unwrap_or_default()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Read an instance",
            "description": "Its data, its waits, and the last 256 visits of its steps.",
            "parameters": [in_path("instance", "The id.")],
            "responses": responses(&[(200, "The instance.", Some("Instance"))]),
        })
    }
}

/// The instance of a record, with the names of its nodes.
pub(crate) async fn shown(context: &Context, record: &Record) -> Result<Instance, Problem> {
    let program = context.state.engine.program(&record.definition).await.map_err(problems::of_store)?;
    Ok(Instance::of(record, program.as_deref()))
}
