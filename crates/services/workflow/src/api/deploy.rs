//! Serves `PUT /api/definitions/{name}`: stores a definition.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::{body, in_path, responses};
use plimsoll_service::{Answer, Call, Endpoint, Kind, Problem, Scope, Takes};
use plimsoll_workflow::file::read;
use serde_json::{Value, json};

use super::state::{Context, State};
use super::{problems, request};

/// Stores a definition as the latest of its name.
pub struct Deploy;

impl Endpoint<State> for Deploy {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/api/definitions/{name}";
    const NAME: &'static str = "deploy";
    const SCOPE: Option<Scope> = Some(crate::scopes::DEPLOY);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context>, call: Call) -> Answer {
        call.query(&[])?;
        // Duplicate keys are refused as in every body.
        call.json()?;
        let name = request::id(&call, "name")?;
        let text = std::str::from_utf8(&call.body).unwrap_or_default();
        let (definition, program) = read(text).map_err(|error| problems::of_text(&error))?;
        if definition.name != name {
            let detail = format!("the definition has the name `{}`: send it to its path", definition.name);
            return Err(Problem::new(Kind::Invalid, detail));
        }
        let deployed = context.state.engine.deploy(&definition).await.map_err(problems::of_deploy)?;
        request::inserted(deployed, json!({"definition": program.version}))
    }

    fn describe() -> Value {
        json!({
            "summary": "Deploy a definition",
            "description": "The definition becomes the latest of its name. Running instances stay on their version. A problem names the line and \
                            the column of each fault.",
            "parameters": [in_path("name", "The name of the definition.")],
            "requestBody": body("Definition"),
            "responses": responses(&[
                (200, "The version was known.", Some("Deployed")),
                (201, "The version is new.", Some("Deployed")),
            ]),
        })
    }
}
