//! Serves `GET /api/definitions/{name}`: the latest definition of a name.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use plimsoll_service::openapi::{in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Takes, reply};
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};

/// Reads the latest definition of a name.
pub struct OneDefinition;

impl Endpoint<State> for OneDefinition {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/api/definitions/{name}";
    const NAME: &'static str = "definition";
    const SCOPE: Option<Scope> = Some(crate::scopes::READ);
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::NotFound];

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        let name = request::id(&call, "name")?;
        let definitions = context.state.engine.refresh().await.map_err(problems::of_store)?;
        let found = definitions.iter().rfind(|definition| definition.name == name);
        let unknown = || Problem::new(Kind::NotFound, format!("no definition is named `{name}`"));
        let definition = found.ok_or_else(unknown)?;
        Ok(reply::json(StatusCode::OK, &definition.masked()))
    }

    fn describe() -> Value {
        json!({
            "summary": "Read a definition",
            "description": "Literal secrets in headers are masked.",
            "parameters": [in_path("name", "The name.")],
            "responses": responses(&[(200, "The latest version.", Some("Definition"))]),
        })
    }
}
