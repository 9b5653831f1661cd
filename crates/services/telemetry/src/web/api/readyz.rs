//! `GET /readyz`: requests can be served.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::describe::responses;
use crate::web::endpoint::{Call, Endpoint, Takes};
use crate::web::problem::{Kind, Problem};
use crate::web::reply::{self, Answer};
use crate::web::security::scope::Scope;
use crate::web::service::Service;

/// Says whether requests can be served.
pub struct Readyz;

impl Endpoint for Readyz {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/readyz";
    const NAME: &'static str = "readyz";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;
    const REFUSES: &'static [Kind] = &[Kind::Unavailable];

    async fn answer(service: Arc<Service>, _: Call) -> Answer {
        if service.is_ending() {
            return Err(Problem::new(Kind::Unavailable, "the service ends"));
        }
        match service.ready.fault(service.clock.now_ns()).await {
            None => Ok(reply::json(StatusCode::OK, &json!({"status": "ready"}))),
            Some(fault) => {
                tracing::warn!(%fault, "not ready");
                Err(Problem::new(Kind::Unavailable, "the database does not answer"))
            }
        }
    }

    fn describe() -> Value {
        json!({
            "summary": "Whether requests can be served",
            "responses": responses(&[(200, "The database answers, and the service does not end.", None)]),
        })
    }
}
