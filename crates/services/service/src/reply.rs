//! Makes responses: JSON, text, and large JSON within the memory budget.

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use crate::blocking;
use crate::budget::Reservation;
use crate::problem::{Kind, Problem};
use crate::sending::Charge;

/// The result of an endpoint.
pub type Answer = Result<Response<Body>, Problem>;

/// A JSON response.
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    text(status, "application/json", value.to_string())
}

/// An answer with more parts than this is serialized on a blocking thread.
const INLINE_PARTS_MAX: usize = 200;

/// A JSON response of the value that `make` returns. `parts` is its size: readings, activities, statistics of a metric.
/// The text keeps its memory reserved until it is sent.
///
/// # Errors
/// The value was not serialized.
pub async fn large_json<T: Serialize>(
    parts: usize,
    memory: Reservation,
    make: impl FnOnce() -> T + Send + 'static,
) -> Answer {
    let reservation = memory.clone();
    let write = move || {
        let written = serde_json::to_vec(&make());
        // The memory stays reserved until here, even if the caller has disconnected.
        drop(reservation);
        written
    };
    let written = if parts > INLINE_PARTS_MAX { blocking::run(write).await } else { Some(write()) };
    let failed = || Problem::new(Kind::Internal, "the answer was not serialized: the log contains the cause");
    let bytes = written.and_then(Result::ok).ok_or_else(failed)?;
    memory.shrink_to(bytes.len());
    Ok(charged(text(StatusCode::OK, "application/json", bytes), memory))
}

/// A response with a text that all requests share, so that no answer takes further memory.
pub(crate) fn shared(kind: &'static str, text: Bytes) -> Response<Body> {
    charged(self::text(StatusCode::OK, kind, text), Reservation::unlimited())
}

/// Keeps the reservation of an answer until the answer is sent.
fn charged(mut response: Response<Body>, memory: Reservation) -> Response<Body> {
    response.extensions_mut().insert(Charge(memory));
    response
}

/// A response with a body of content type `kind`.
pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A response without a body.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use futures_util::TryStreamExt;

    use super::*;
    use crate::budget::Budget;
    use crate::sending;

    #[tokio::test]
    async fn a_large_answer_is_serialized_on_a_blocking_thread() {
        let here = thread::current().id();
        for (parts, elsewhere) in [(1, false), (INLINE_PARTS_MAX, false), (INLINE_PARTS_MAX + 1, true)] {
            let (sender, receiver) = mpsc::channel();
            let make = move || sender.send(thread::current().id()).unwrap();
            assert!(large_json(parts, Reservation::unlimited(), make).await.is_ok());
            assert_eq!(receiver.recv().unwrap() != here, elsewhere, "{parts}");
        }
    }

    #[tokio::test]
    async fn an_answer_reserves_memory_until_it_is_sent() {
        let budget = Budget::new(1 << 20);
        let memory = budget.reservation();
        memory.grow(500_000).unwrap();
        let answer = large_json(1, memory, || "x".repeat(5_000)).await.unwrap();
        assert_eq!(budget.taken_bytes(), 5 << 10, "the text alone, without the value that was serialized");
        let body = sending::outgoing(answer).into_body();
        let pieces: Vec<_> = body.into_data_stream().try_collect().await.unwrap();
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 5_002);
        assert_eq!(budget.taken_bytes(), 5 << 10, "as long as one piece exists");
        drop(pieces);
        assert_eq!(budget.taken_bytes(), 0);
    }
}
