//! Answers refused requests in SciCat's shapes.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{Response, StatusCode};
use plimsoll_service::{Kind, Problem, reply};
use serde_json::{Value, json};

use crate::Refusal;
use crate::storage;

/// The answer to a refused request.
pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = reply::json(status, &refusal.body());
    if let Refusal::Guessed(seconds) = refusal {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}

/// The answer to a request that the service refuses before the endpoint, with the service's headers.
pub(super) fn refusal(problem: &Problem) -> Response<Body> {
    let mut response = problem.response();
    let body = match problem.kind() {
        Kind::TooLarge => Refusal::TooLarge.body(),
        _ => body(problem, response.status()),
    };
    *response.body_mut() = Body::from(body.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn body(problem: &Problem, status: StatusCode) -> Value {
    let error = status.canonical_reason().unwrap_or("Error");
    json!({"message": problem.detail(), "error": error, "statusCode": status.as_u16()})
}

impl From<storage::Error> for Refusal {
    fn from(error: storage::Error) -> Self {
        match error {
            storage::Error::Refused(refusal) => refusal,
            storage::Error::Changed => Self::Conflict("the document changes all the time: retry".into()),
            storage::Error::Database(error) if storage::is_too_slow(&error) => {
                Self::too_slow(storage::READ_MAX)
            }
            storage::Error::Database(error) if storage::is_bad_query(&error) => {
                Self::bad("the database does not accept the query: check its patterns and its order")
            }
            storage::Error::Database(error) => {
                // The database's message stays in the log, because it may contain private names.
                tracing::warn!(%error, "the database failed");
                Self::Unavailable
            }
        }
    }
}
