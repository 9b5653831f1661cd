//! Classifies the answer to an operation as an outcome.
//!
//! An unexpected status decides first. 4xx means that the request was not carried out: rejected, by class. That includes 429,
//! which sheds load before any work. 5xx may be sent mid-operation, by the service (500, or 503 when its database did not answer
//! in time) or by a proxy that lost the service (502, 503, 504). A write may have been done, so the outcome is unknown. Only 501
//! and 505 mean that the request was not understood.
//!
//! An answer with an expected status that fails another condition is rejected as unexpected. An answer larger
//! than `http.limits.answer` is rejected as too large, because its rest was not checked. A request without an
//! answer has an unknown outcome: it may have arrived. A request counts as not tried if an HTTP/2 server says
//! so, or if no connection could be opened for it.

use std::io;

use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use crate::answer::Answer;
use crate::counts::Counts;
use crate::fault::ExchangeError;
use crate::json::{self, Found};
use crate::setup::{Call, Condition, TextWant, ValueWant};

/// The keys of sentences in a JSON object: those of RFC 9457, and common others.
const SENTENCES: [&str; 5] = ["title", "detail", "message", "error", "error_description"];

/// Classifies the answer to the operation with index `operation`. Counts its status and every condition.
pub(crate) fn answered(call: &Call, operation: usize, answer: &Answer<'_>, counts: &Counts) -> Outcome {
    counts.status(operation, answer.status);
    let takes = call.checks.takes(answer.status);
    counts.check(operation, 0, takes);
    let mut broken = None;
    for (index, condition) in call.checks.conditions.iter().enumerate() {
        let held = !answer.is_too_large && condition.holds(answer);
        counts.check(operation, index + 1, held);
        if !held && broken.is_none() {
            broken = Some(index + 1);
        }
    }
    let outcome = match (takes, answer.is_too_large, broken) {
        (false, ..) => of_status(answer.status),
        (true, true, _) => Outcome::Rejected(Rejection::AnswerTooLarge),
        (true, false, Some(_)) => Outcome::Rejected(Rejection::Unexpected),
        (true, false, None) => Outcome::Acknowledged,
    };
    let error = || {
        let name = if takes { "" } else { name_of(answer.status) };
        let message = message(call, answer, takes, broken);
        FirstError::new(answer.status.into(), name, message).of_command(&call.sample())
    };
    counts.first_errors.note(operation, outcome, error);
    outcome
}

/// The failed check, with the server's message.
fn message(call: &Call, answer: &Answer<'_>, takes: bool, broken: Option<usize>) -> String {
    if takes && answer.is_too_large {
        return format!("an answer of {} bytes exceeds http.limits.answer", answer.body_len);
    }
    let check = &call.checks.names[if takes { broken.unwrap_or(0) } else { 0 }];
    match words_of(answer.body) {
        words if words.is_empty() => format!("`{check}` failed"),
        words => format!("`{check}` failed: {words}"),
    }
}

/// The name of a status by RFC 9110; empty for an unknown one.
fn name_of(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// The server's message in a body: the sentences of a JSON problem or a similar object, or else the text.
fn words_of(body: &[u8]) -> String {
    let object =
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).unwrap_or_default();
    let said: Vec<&str> = SENTENCES.iter().filter_map(|key| object.get(*key)?.as_str()).collect();
    if said.is_empty() { String::from_utf8_lossy(body).trim().to_owned() } else { said.join(": ") }
}

/// Classifies an unanswered request. Counts every condition as failed.
pub(crate) fn unanswered(call: &Call, operation: usize, fault: &ExchangeError, counts: &Counts) -> Outcome {
    counts.status(operation, 0);
    (0..call.checks.names.len()).for_each(|check| counts.check(operation, check, false));
    let outcome = match fault {
        ExchangeError::Timeout => Outcome::Unknown(Doubt::Timeout),
        ExchangeError::Lost(error) if error.kind() == io::ErrorKind::TimedOut => {
            Outcome::Unknown(Doubt::Timeout)
        }
        ExchangeError::Lost(_) => Outcome::Unknown(Doubt::ConnectionLost),
        ExchangeError::Malformed(_) => Outcome::Unknown(Doubt::MalformedAnswer),
        ExchangeError::NotConnected(error) if error.is_no_local_port() => {
            Outcome::Rejected(Rejection::NoLocalPort)
        }
        ExchangeError::NotTried | ExchangeError::Leaving | ExchangeError::NotConnected(_) => {
            Outcome::Rejected(Rejection::NotTried)
        }
    };
    let error = || FirstError::new(0, "", fault).of_command(&call.sample());
    counts.first_errors.note(operation, outcome, error);
    outcome
}

/// The outcome of an unexpected status.
fn of_status(status: u16) -> Outcome {
    match status {
        400 | 409 | 412 | 422 | 428 => Outcome::Rejected(Rejection::Validation),
        401 | 403 | 407 => Outcome::Rejected(Rejection::Unauthorized),
        413 | 414 | 431 => Outcome::Rejected(Rejection::TooLarge),
        429 => Outcome::Rejected(Rejection::Overload),
        404 | 405 | 406 | 410 | 415 | 501 | 505 => Outcome::Rejected(Rejection::BadCommand),
        500..=599 => Outcome::Unknown(Doubt::Interrupted),
        400..=499 => Outcome::Rejected(Rejection::Other),
        _ => Outcome::Rejected(Rejection::Unexpected),
    }
}

impl Condition {
    fn holds(&self, answer: &Answer<'_>) -> bool {
        match self {
            Self::Header(name, wanted) => wanted.holds(answer.fields.get(name)),
            Self::Json(path, wanted) => json::find(answer.body, path).is_ok_and(|found| wanted.holds(found)),
            Self::Size(range) => range.contains(&answer.body_len),
            Self::Contains(text) => contains(answer.body, text),
        }
    }
}

impl TextWant {
    fn holds(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Self::Equals(text), Some(value)) => value == text.as_bytes(),
            (Self::Equals(_), None) => false,
            (Self::Like { exists, .. }, None) => !exists,
            (Self::Like { exists, contains: part, starts_with }, Some(value)) => {
                *exists && contains(value, part.as_bytes()) && value.starts_with(starts_with.as_bytes())
            }
        }
    }
}

impl ValueWant {
    fn holds(&self, found: Option<Found<'_>>) -> bool {
        let (Self::Like { equals, number, items }, Some(found)) = (self, found) else {
            return matches!((self, found), (Self::Missing, None));
        };
        let within =
            |(min, max): (f64, f64)| found.number().is_some_and(|number| (min..=max).contains(&number));
        let counted =
            |(min, max): (u64, u64)| found.items().is_some_and(|items| (min..=max).contains(&items));
        equals.as_ref().is_none_or(|expected| found.is(expected))
            && number.is_none_or(within)
            && items.is_none_or(counted)
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Fields;
    use crate::setup::{Context, Setup};
    use std::path::Path;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nx-a: b\r\n\r\n";

    fn setup(check: &str) -> Setup {
        let section = serde_saphyr::from_str("url: http://h").unwrap();
        let request = serde_saphyr::from_str(&format!("get: /\ncheck: {check}")).unwrap();
        let context = Context { seed: 1, start_ms: 0, base: Path::new(".") };
        Setup::build(&section, &[("op".to_owned(), request)], context).unwrap()
    }

    fn check(conditions: &str, status: u16, body: &str) -> Outcome {
        noted(conditions, status, body).0
    }

    /// The outcome, and the first error, if any.
    fn noted(conditions: &str, status: u16, body: &str) -> (Outcome, Option<FirstError>) {
        let setup = setup(conditions);
        let counts = Counts::new(&setup);
        let answer = Answer {
            status,
            fields: Fields::Raw(HEAD),
            body: body.as_bytes(),
            body_len: body.len() as u64,
            is_too_large: false,
        };
        let outcome = answered(&setup.calls[0], 0, &answer, &counts);
        (outcome, counts.first_errors.take().pop().map(|it| it.error))
    }

    #[test]
    fn an_error_keeps_the_words_of_the_server_and_its_request() {
        let problem = r#"{"type": "about:blank", "title": "Busy", "detail": "the database does not answer"}"#;
        for (conditions, status, body, said) in [
            (
                "{}",
                503,
                problem,
                "503 Service Unavailable: `status 200-399` failed: Busy: the database does not answer",
            ),
            (
                "{}",
                404,
                r#"{"error": "no such part"}"#,
                "404 Not Found: `status 200-399` failed: no such part",
            ),
            ("{}", 400, " plain words\n", "400 Bad Request: `status 200-399` failed: plain words"),
            ("{}", 500, "", "500 Internal Server Error: `status 200-399` failed"),
            ("{json: {a: 1}}", 200, r#"{"a": 2}"#, r#"200: `json a` failed: {"a": 2}"#),
        ] {
            let error = noted(conditions, status, body).1.unwrap();
            assert_eq!(error.to_string(), said);
            assert_eq!(error.command.as_deref(), Some("GET /"));
        }
        assert_eq!(noted("{}", 200, problem).1, None);
    }

    #[test]
    fn statuses_have_their_class() {
        use Rejection::{BadCommand, Other, Overload, TooLarge, Unauthorized, Unexpected, Validation};
        for (status, expected) in [
            (200, Outcome::Acknowledged),
            (302, Outcome::Acknowledged),
            (100, Outcome::Rejected(Unexpected)),
            (400, Outcome::Rejected(Validation)),
            (401, Outcome::Rejected(Unauthorized)),
            (404, Outcome::Rejected(BadCommand)),
            (413, Outcome::Rejected(TooLarge)),
            (418, Outcome::Rejected(Other)),
            (429, Outcome::Rejected(Overload)),
            (500, Outcome::Unknown(Doubt::Interrupted)),
            (502, Outcome::Unknown(Doubt::Interrupted)),
            (501, Outcome::Rejected(BadCommand)),
            (503, Outcome::Unknown(Doubt::Interrupted)),
            (504, Outcome::Unknown(Doubt::Interrupted)),
        ] {
            assert_eq!(check("{}", status, ""), expected, "{status}");
        }
        assert_eq!(check("{status: 404}", 404, ""), Outcome::Acknowledged);
        assert_eq!(check("{status: 201}", 200, ""), Outcome::Rejected(Unexpected));
    }

    #[test]
    fn every_kind_of_condition_can_hold_and_fail() {
        let body = r#"{"items": [{"n": 5, "t": "x"}], "none": null}"#;
        for (conditions, holds) in [
            ("{json: {items.0.n: 5}}", true),
            ("{json: {items.0.n: 6}}", false),
            ("{json: {items.0.t: x, none: null}}", true),
            ("{json: {items.1: {exists: true}}}", false),
            ("{json: {items.1: {exists: false}}}", true),
            ("{json: {items: {items_min: 1, items_max: 1}}}", true),
            ("{json: {items: {items_min: 2}}}", false),
            ("{json: {items.0.n: {min: 5, max: 5.5}}}", true),
            ("{json: {items.0.n: {max: 4}}}", false),
            ("{json: {items.0: {equals: {n: 5, t: x}}}}", true),
            ("{json: {items: {min: 0}}}", false),
            ("{headers: {x-a: b, Content-Type: {starts_with: application/json, contains: utf-8}}}", true),
            ("{headers: {x-a: c}}", false),
            ("{headers: {x-b: {exists: false}}}", true),
            ("{headers: {x-b: {contains: ''}}}", false),
            ("{body: {min: 1B, max: 45B, contains: items}}", true),
            ("{body: {max: 5B}}", false),
            ("{body: {contains: other}}", false),
        ] {
            let expected =
                if holds { Outcome::Acknowledged } else { Outcome::Rejected(Rejection::Unexpected) };
            assert_eq!(check(conditions, 200, body), expected, "{conditions}");
        }
        assert_eq!(
            check("{json: {a: {exists: false}}}", 200, "no json"),
            Outcome::Rejected(Rejection::Unexpected)
        );
    }
}
