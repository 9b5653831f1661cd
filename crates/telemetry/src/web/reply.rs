//! Answers.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::problem::Problem;

/// What an endpoint gives.
pub type Answer = Result<Response<Body>, Problem>;

/// JSON.
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    text(status, "application/json", value.to_string())
}

/// A text of a type.
pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Nothing but a status.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
