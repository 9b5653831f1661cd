//! Refuses requests in SciCat's words and shapes.

use std::time::Duration;

use serde_json::{Value, json};

/// A refused request. Clients of SciCat read these bodies.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// 400: a query or a body is wrong.
    #[error("{0}")]
    BadRequest(String),
    /// 400: properties of a body are wrong, with a sentence for each.
    #[error("{}", .0.join("; "))]
    Properties(Vec<String>),
    /// 400 in the form of version 3: the sentences are JSON in a string.
    #[error("{}", .0.join("; "))]
    PropertiesV3(Vec<String>),
    /// 401: the caller is unknown.
    #[error("Unauthorized")]
    Unauthorized,
    /// 401: the token has expired.
    #[error("SESSION_EXPIRED")]
    SessionExpired,
    /// 403: the role of the caller does not allow the request.
    #[error("Forbidden resource")]
    Forbidden,
    /// 403: the resource belongs to others.
    #[error("Unauthorized access")]
    Foreign,
    /// 404.
    #[error("{0}")]
    NotFound(String),
    /// 409.
    #[error("{0}")]
    Conflict(String),
    /// 412: the resource has changed since the moment in `If-Unmodified-Since`.
    #[error("{0}")]
    Precondition(String),
    /// 413.
    #[error("request entity too large")]
    TooLarge,
    /// 429: answers to other requests use the memory.
    #[error("too many answers are in memory: retry later")]
    Busy,
    /// 429: too many logins failed; a login may be tried after these seconds.
    #[error("too many logins failed: retry in {0} s")]
    Guessed(u64),
    /// 503: the issuer at which users log in does not answer.
    #[error("the issuer of logins failed: retry")]
    NoIssuer,
    /// 503: an answer takes longer than a request waits.
    #[error("the answer takes longer than 10 s and is still being computed: retry in 10 s")]
    Computing,
    /// 503: the database does not answer.
    #[error("the database failed: retry")]
    Unavailable,
}

impl Refusal {
    /// A wrong query or body.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// A query that takes too long.
    pub fn too_slow(limit: Duration) -> Self {
        let limit_s = limit.as_secs();
        Self::bad(format!(
            "the query takes longer than {limit_s} s: add conditions, or ask for a smaller page"
        ))
    }

    /// A missing dataset.
    pub fn no_dataset(pid: &str) -> Self {
        Self::NotFound(format!("dataset: {} not found", shortened(pid)))
    }

    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) | Self::Properties(_) | Self::PropertiesV3(_) => 400,
            Self::Unauthorized | Self::SessionExpired => 401,
            Self::Forbidden | Self::Foreign => 403,
            Self::NotFound(_) => 404,
            Self::Conflict(_) => 409,
            Self::Precondition(_) => 412,
            Self::TooLarge => 413,
            Self::Busy | Self::Guessed(_) => 429,
            Self::NoIssuer | Self::Computing | Self::Unavailable => 503,
        }
    }

    /// The short name of the status; SciCat leaves it out of a refused login.
    const fn error(&self) -> Option<&'static str> {
        match self.status() {
            400 => Some("Bad Request"),
            403 => Some("Forbidden"),
            404 => Some("Not Found"),
            409 => Some("Conflict"),
            412 => Some("Precondition Failed"),
            413 => Some("Payload Too Large"),
            429 => Some("Too Many Requests"),
            503 => Some("Service Unavailable"),
            _ => None,
        }
    }

    /// The body.
    pub fn body(&self) -> Value {
        let message: Value = match self {
            Self::PropertiesV3(faults) => {
                return json!({"status": 400, "message": json!(faults).to_string()});
            }
            Self::Properties(faults) => json!(faults),
            other => other.to_string().into(),
        };
        match self.error() {
            Some(error) => json!({"message": message, "error": error, "statusCode": self.status()}),
            None => json!({"message": message, "statusCode": self.status()}),
        }
    }
}

/// The maximum number of faults of a body in an answer. The search for faults ends there.
pub(crate) const FAULTS_MAX: usize = 50;

/// The text of a client in a message: at most 100 characters.
pub(crate) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(CHARS_MAX).collect();
    if chars.next().is_none() { short } else { format!("{short}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_the_shape_that_clients_read() {
        for (refusal, body) in [
            (
                Refusal::Foreign,
                json!({"message": "Unauthorized access", "error": "Forbidden", "statusCode": 403}),
            ),
            (Refusal::Unauthorized, json!({"message": "Unauthorized", "statusCode": 401})),
            (
                Refusal::no_dataset("a/b"),
                json!({"message": "dataset: a/b not found", "error": "Not Found", "statusCode": 404}),
            ),
            (
                Refusal::Properties(vec!["property x should not exist".into()]),
                json!({"message": ["property x should not exist"], "error": "Bad Request", "statusCode": 400}),
            ),
            (Refusal::PropertiesV3(vec!["a".into()]), json!({"status": 400, "message": "[\"a\"]"})),
        ] {
            assert_eq!(refusal.body(), body);
        }
    }

    #[test]
    fn a_long_text_of_the_client_is_shortened_in_the_message() {
        let body = Refusal::no_dataset(&"é".repeat(10_000)).body();
        assert!(body["message"].as_str().unwrap().chars().count() < 150);
    }
}
