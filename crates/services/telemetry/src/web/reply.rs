//! Answers.

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::problem::{Kind, Problem};
use crate::aside::aside;
use crate::budget::Hold;

/// What an endpoint gives.
pub type Answer = Result<Response<Body>, Problem>;

/// JSON.
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    text(status, "application/json", value.to_string())
}

/// An answer of more parts than this is written on a thread of its own.
const ASIDE_PARTS: usize = 200;

/// The JSON of what `make` gives, which has so many parts: figures of a metric, readings, activities. The text keeps its
/// share of the memory until it is sent.
///
/// # Errors
/// When it was not written to its end.
pub async fn made<T: Serialize>(
    parts: usize,
    hold: Hold,
    make: impl FnOnce() -> T + Send + 'static,
) -> Answer {
    let held = hold.clone();
    let write = move || {
        let written = serde_json::to_vec(&make());
        // Until here, even if nobody waits for the answer any more.
        drop(held);
        written
    };
    let written = if parts > ASIDE_PARTS { aside(write).await } else { Some(write()) };
    let failed = || Problem::new(Kind::Internal, "the answer was not written to its end");
    let bytes = written.and_then(Result::ok).ok_or_else(failed)?;
    hold.shrink_to(bytes.len());
    Ok(text(StatusCode::OK, "application/json", Bytes::from_owner(Made { bytes, _hold: hold })))
}

/// The text of an answer, and what it takes of the memory.
struct Made {
    bytes: Vec<u8>,
    _hold: Hold,
}

impl AsRef<[u8]> for Made {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::budget::Budget;

    #[tokio::test]
    async fn what_has_many_parts_is_written_on_a_thread_of_its_own() {
        let here = thread::current().id();
        for (parts, elsewhere) in [(1, false), (ASIDE_PARTS, false), (ASIDE_PARTS + 1, true)] {
            let (sender, told) = mpsc::channel();
            let make = move || sender.send(thread::current().id()).unwrap();
            assert!(made(parts, Hold::unlimited(), make).await.is_ok());
            assert_eq!(told.recv().unwrap() != here, elsewhere, "{parts}");
        }
    }

    #[tokio::test]
    async fn an_answer_takes_memory_until_it_is_sent() {
        let budget = Budget::new(1 << 20);
        let hold = budget.hold();
        hold.grow(500_000).unwrap();
        let answer = made(1, hold, || "x".repeat(5_000)).await.unwrap();
        assert_eq!(budget.taken_bytes(), 5 << 10, "its text, and no more what it was made of");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!(body.len(), 5_002);
        drop(body);
        assert_eq!(budget.taken_bytes(), 0);
    }
}
