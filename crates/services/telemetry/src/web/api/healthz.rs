//! `GET /healthz`: the process works.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::responses;
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Says that it works.
pub struct Healthz;

impl Endpoint for Healthz {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/healthz";
    const NAME: &'static str = "healthz";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(_: Arc<Service>, _: Call) -> Answer {
        Ok(reply::json(StatusCode::OK, &json!({"status": "ok"})))
    }

    fn describe() -> Value {
        json!({
            "summary": "Whether the process works",
            "description": "It says nothing of the database: a service that waits for it need not be started anew.",
            "responses": responses(&[(200, "It does.", None)]),
        })
    }
}
