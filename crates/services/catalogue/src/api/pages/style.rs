//! Serves `GET /style.css`: the style of all pages, open to everyone.

use std::sync::Arc;

use axum::http::Method;
use plimsoll_service::openapi::responses;
use plimsoll_service::{Answer, Call, Endpoint, Routes, Scope, Takes, page};
use serde_json::{Value, json};

use crate::api::state::{Context, State};

/// The style of all pages.
struct Style;

/// Adds the style.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Style>()
}

impl Endpoint<State> for Style {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/style.css";
    const NAME: &'static str = "style";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;

    async fn answer(_: Arc<Context>, _: Call) -> Answer {
        Ok(page::style(""))
    }

    fn describe() -> Value {
        json!({"summary": "The style of the pages", "responses": responses(&[(200, "CSS.", None)])})
    }
}
