//! Answers refused requests with problem details (RFC 9457).

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::budget::BudgetError;

/// The kinds of refusal, one for each problem type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body is not JSON, or the query is malformed.
    Malformed,
    /// The key or token is missing or invalid.
    Unauthenticated,
    /// The caller lacks a permission.
    Forbidden,
    /// The resource does not exist.
    NotFound,
    /// The path does not support the method.
    Method,
    /// The body arrived too slowly.
    Slow,
    /// The request contradicts existing data.
    Conflict,
    /// The body is too large.
    TooLarge,
    /// The content type of the body is unsupported.
    MediaType,
    /// The body is JSON with an invalid value.
    Invalid,
    /// The caller exceeds its rate limit.
    RateLimited,
    /// The service is overloaded.
    Busy,
    /// The service failed.
    Internal,
    /// A dependency does not answer, or the service shuts down.
    Unavailable,
}

/// The maximum number of items of a list in a problem body.
const ITEMS_MAX: usize = 100;

/// A refusal. Boxed, because refusals are rare and a `Result` of an answer should stay small.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: Kind,
    detail: String,
    fields: Vec<InvalidField>,
    retry_after_s: Option<u64>,
    more: Map<String, Value>,
}

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidField {
    /// The field, truncated if long; empty for the request as a whole.
    pub field: String,
    /// The fault and its remedy.
    pub reason: String,
}

impl InvalidField {
    /// An invalid field; a long name is truncated.
    pub fn new(field: &str, reason: impl Into<String>) -> Self {
        const FIELD_CHARS_MAX: usize = 64;
        Self { field: field.chars().take(FIELD_CHARS_MAX).collect(), reason: reason.into() }
    }
}

impl Kind {
    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited | Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The last part of the type's URI, and the title.
    const fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("malformed", "The request is malformed"),
            Self::Unauthenticated => ("unauthenticated", "The key or token is missing or invalid"),
            Self::Forbidden => ("forbidden", "The caller is not allowed to do this"),
            Self::NotFound => ("not-found", "The resource does not exist"),
            Self::Method => ("method-not-allowed", "The path does not support this method"),
            Self::Slow => ("too-slow", "The request arrived too slowly"),
            Self::Conflict => ("conflict", "The request contradicts existing data"),
            Self::TooLarge => ("too-large", "The request is too large"),
            Self::MediaType => ("media-type", "The content type is unsupported"),
            Self::Invalid => ("invalid", "The request has an invalid value"),
            Self::RateLimited => ("rate-limited", "The caller exceeds its rate limit"),
            Self::Busy => ("busy", "The service is overloaded"),
            Self::Internal => ("internal", "The service failed"),
            Self::Unavailable => ("unavailable", "The service is unavailable"),
        }
    }
}

impl Problem {
    /// A problem; `detail` names the fault and its remedy.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self(Box::new(Inner { kind, detail, fields: Vec::new(), retry_after_s: None, more: Map::new() }))
    }

    /// A problem of kind [`Kind::Invalid`] for one field.
    pub fn field(field: &str, reason: impl Into<String>) -> Self {
        InvalidField::new(field, reason).into()
    }

    /// Changes the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Adds `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// Adds a member to the body.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.more.insert(name.to_owned(), value);
        self
    }

    /// Adds a list to the body, at most its first 100 items; `omitted` then counts the others. A few bytes of a request must not
    /// become kilobytes of the answer.
    #[must_use]
    pub fn with_list(self, name: &str, mut items: Vec<Value>) -> Self {
        let omitted = items.len().saturating_sub(ITEMS_MAX);
        items.truncate(ITEMS_MAX);
        let listed = self.with(name, items.into());
        if omitted == 0 { listed } else { listed.with("omitted", omitted.into()) }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The detail.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    fn body(&self) -> Value {
        let (name, title) = self.0.kind.name_and_title();
        let mut body = json!({
            "type": format!("urn:plimsoll:problem:{name}"),
            "title": title,
            "status": self.0.kind.status().as_u16(),
            "detail": self.0.detail,
        });
        if !self.0.fields.is_empty() {
            let field = |it: &InvalidField| json!({"field": it.field, "reason": it.reason});
            body["fields"] = self.0.fields.iter().map(field).collect();
        }
        for (name, value) in &self.0.more {
            body[name.as_str()] = value.clone();
        }
        body
    }

    /// The HTTP response.
    pub fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.0.kind.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.0.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.0.kind == Kind::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<InvalidField> for Problem {
    fn from(invalid: InvalidField) -> Self {
        let mut problem = Self::new(Kind::Invalid, invalid.to_string());
        problem.0.fields.push(invalid);
        problem
    }
}

impl From<BudgetError> for Problem {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Busy => Self::new(Kind::Busy, error.to_string()).retry_after(1),
            BudgetError::TooLarge { .. } => Self::new(Kind::Invalid, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_every_member_of_the_rfc_and_the_invalid_field() {
        let problem = Problem::field("temperature", "must be a number");
        assert_eq!(
            problem.body(),
            json!({
                "type": "urn:plimsoll:problem:invalid",
                "title": "The request has an invalid value",
                "status": 422,
                "detail": "temperature: must be a number",
                "fields": [{"field": "temperature", "reason": "must be a number"}],
            })
        );
        let response = problem.response();
        assert_eq!(response.status(), 422);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn a_list_in_a_problem_is_capped_and_says_so() {
        let problem = |items: usize| {
            Problem::new(Kind::Invalid, "all").with_list("failed", vec![json!({"line": 1}); items]).body()
        };
        assert_eq!(problem(ITEMS_MAX)["failed"].as_array().unwrap().len(), ITEMS_MAX);
        assert!(problem(ITEMS_MAX)["omitted"].is_null());
        let many = problem(10_000);
        assert_eq!((many["failed"].as_array().unwrap().len(), &many["omitted"]), (ITEMS_MAX, &json!(9_900)));
    }

    #[test]
    fn headers_name_the_time_of_a_retry_and_the_authentication() {
        let busy = Problem::new(Kind::Busy, "later").retry_after(3).response();
        assert_eq!((busy.status().as_u16(), &busy.headers()[RETRY_AFTER]), (429, &HeaderValue::from(3)));
        let unknown = Problem::new(Kind::Unauthenticated, "who?").response();
        assert_eq!(unknown.headers()[WWW_AUTHENTICATE], "Bearer");
    }
}
