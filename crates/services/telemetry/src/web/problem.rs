//! What a refused request is answered: problem details, RFC 9457.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::reading::Invalid;

/// Why a request is refused, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body is no JSON, the query no query.
    Malformed,
    /// Nobody is known by what it brings.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path knows other methods.
    Method,
    /// The body came too slowly.
    Slow,
    /// It contradicts what is there.
    Conflict,
    /// The body is too large.
    TooLarge,
    /// The body is of another type.
    MediaType,
    /// The body is JSON and says something that cannot be meant.
    Invalid,
    /// The caller sends too much.
    RateLimited,
    /// The service has too much to do.
    Busy,
    /// The service fails.
    Internal,
    /// The database cannot be reached, or the service ends.
    Unavailable,
}

/// A refused request. Refusals are rare, so they lie aside and cost the good answers nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: Kind,
    detail: String,
    fields: Vec<Invalid>,
    retry_after_s: Option<u64>,
    more: Map<String, Value>,
}

impl Kind {
    /// The status that it is answered with.
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

    /// The end of the type's URI, and the title.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("malformed", "The request cannot be read"),
            Self::Unauthenticated => ("unauthenticated", "The request brings no valid key or token"),
            Self::Forbidden => ("forbidden", "The caller may not do this"),
            Self::NotFound => ("not-found", "There is no such thing"),
            Self::Method => ("method-not-allowed", "The path does not know this method"),
            Self::Slow => ("too-slow", "The request came too slowly"),
            Self::Conflict => ("conflict", "The request contradicts what is there"),
            Self::TooLarge => ("too-large", "The request is too large"),
            Self::MediaType => ("media-type", "The body is of another type than is taken"),
            Self::Invalid => ("invalid", "The request says something that cannot be meant"),
            Self::RateLimited => ("rate-limited", "The caller sends too many requests"),
            Self::Busy => ("busy", "The service has too much to do"),
            Self::Internal => ("internal", "The service failed"),
            Self::Unavailable => ("unavailable", "The service cannot do this now"),
        }
    }
}

impl Problem {
    /// A problem of a kind, and what in particular is wrong and would be right.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self(Box::new(Inner { kind, detail, fields: Vec::new(), retry_after_s: None, more: Map::new() }))
    }

    /// A field that cannot be meant.
    pub fn field(field: &str, reason: impl Into<String>) -> Self {
        Invalid { field: field.to_owned(), reason: reason.into() }.into()
    }

    /// The same of another kind.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The caller may come back in so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// A further member of the body.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.more.insert(name.to_owned(), value);
        self
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What in particular is wrong.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    fn body(&self) -> Value {
        let (name, title) = self.0.kind.words();
        let mut body = json!({
            "type": format!("urn:plimsoll:problem:{name}"),
            "title": title,
            "status": self.0.kind.status().as_u16(),
            "detail": self.0.detail,
        });
        if !self.0.fields.is_empty() {
            let field = |it: &Invalid| json!({"field": it.field, "reason": it.reason});
            body["fields"] = self.0.fields.iter().map(field).collect();
        }
        for (name, value) in &self.0.more {
            body[name.as_str()] = value.clone();
        }
        body
    }

    /// As it is sent.
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

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let mut problem = Self::new(Kind::Invalid, invalid.to_string());
        problem.0.fields.push(invalid);
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_every_member_of_the_rfc_and_the_field_at_fault() {
        let problem = Problem::field("temperature", "must be a number");
        assert_eq!(
            problem.body(),
            json!({
                "type": "urn:plimsoll:problem:invalid",
                "title": "The request says something that cannot be meant",
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
    fn headers_tell_when_to_come_back_and_how_to_come_in() {
        let busy = Problem::new(Kind::Busy, "later").retry_after(3).response();
        assert_eq!((busy.status().as_u16(), &busy.headers()[RETRY_AFTER]), (429, &HeaderValue::from(3)));
        let unknown = Problem::new(Kind::Unauthenticated, "who?").response();
        assert_eq!(unknown.headers()[WWW_AUTHENTICATE], "Bearer");
    }
}
