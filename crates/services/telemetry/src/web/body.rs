//! Reads bodies: their type, no more than is allowed, no longer than is allowed, and as JSON.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use futures_util::StreamExt;
use serde_json::Value;
use serde_json::error::Category;

use super::endpoint::Takes;
use super::problem::{Kind, Problem};
use super::strict;
use crate::budget::{Budget, Share};
use crate::reading::Unread;
use crate::settings::limits::Limits;

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// Lines of JSON.
    Lines,
}

/// A body that is too large is read and thrown away up to so many bytes, so that a client that only reads the answer
/// after it has sent everything gets to see it.
const DISCARDED_BYTES_MAX: u64 = 32 << 20;

/// The body of a request, and its share of the budget.
pub(super) async fn read(
    takes: Takes,
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    budget: &Budget,
) -> Result<(Media, Bytes, Option<Share>), Problem> {
    let most = match takes {
        Takes::Nothing => return Ok((Media::Json, Bytes::new(), None)),
        Takes::Json => limits.body_bytes_max,
        Takes::Batch => limits.batch_bytes_max,
    };
    let media = media(takes, headers)?;
    let length = length(headers);
    if length.is_some_and(|length| length > u64::from(most)) {
        return Err(refuse_large(body, most, limits).await);
    }
    let expected = length.and_then(|length| u32::try_from(length).ok()).unwrap_or(most);
    let share = budget.take(expected).ok_or_else(|| {
        Problem::new(Kind::Busy, "too many bodies are in memory: come back later").retry_after(1)
    })?;
    let collected = tokio::time::timeout(limits.body.duration(), collect(body, most)).await;
    match collected {
        Err(_) => {
            let detail =
                format!("the body was not here within {}: send it faster, or less of it", limits.body);
            Err(Problem::new(Kind::Slow, detail))
        }
        Ok(Ok(bytes)) => Ok((media, bytes, Some(share))),
        Ok(Err(Broken::Large(body))) => Err(refuse_large(body, most, limits).await),
        Ok(Err(Broken::Transport)) => Err(Problem::new(Kind::Malformed, "the body broke off: send it whole")),
    }
}

enum Broken {
    /// It is larger than it may be; this is the rest.
    Large(Body),
    Transport,
}

/// All of a body. What came in one piece is not copied.
async fn collect(body: Body, most: u32) -> Result<Bytes, Broken> {
    let mut stream = body.into_data_stream();
    let (mut first, mut rest) = (Bytes::new(), Vec::new());
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| Broken::Transport)?;
        if first.len() + rest.len() + piece.len() > most as usize {
            return Err(Broken::Large(Body::from_stream(stream)));
        }
        if first.is_empty() && rest.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&piece);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.into() })
}

async fn refuse_large(body: Body, most: u32, limits: &Limits) -> Problem {
    let discard = async {
        let (mut stream, mut bytes) = (body.into_data_stream(), 0);
        while let Some(Ok(piece)) = stream.next().await {
            bytes += piece.len() as u64;
            if bytes > DISCARDED_BYTES_MAX {
                break;
            }
        }
    };
    // However it goes: the answer is the same.
    tokio::time::timeout(limits.body.duration(), discard).await.unwrap_or_default();
    Problem::new(Kind::TooLarge, format!("the body has more than {most} bytes: send less at once"))
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body without a type is taken as JSON, as simple clients send it. A page in a browser could send one too, without asking
/// first; the gate has turned it away by its `Origin`, or by the key that it lacks.
fn media(takes: Takes, headers: &HeaderMap) -> Result<Media, Problem> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Media::Json) };
    if value == HeaderValue::from_static("application/json") {
        return Ok(Media::Json);
    }
    let value = value.to_str().unwrap_or_default();
    let name = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match name.as_str() {
        "application/json" => Ok(Media::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" if takes == Takes::Batch => {
            Ok(Media::Lines)
        }
        name if name.starts_with("application/") && name.ends_with("+json") => Ok(Media::Json),
        _ => {
            let and = if takes == Takes::Batch { " or application/x-ndjson" } else { "" };
            let detail = format!("send `Content-Type: application/json`{and}");
            Err(Problem::new(Kind::MediaType, detail))
        }
    }
}

/// A body as JSON, in which no object has a key twice.
pub(super) fn json(bytes: &[u8]) -> Result<Value, Problem> {
    strict::value(bytes).map_err(|error| Problem::new(Kind::Malformed, no_json(&error)))
}

/// What is wrong with what should be JSON.
pub(super) fn no_json(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => error.to_string(),
        Category::Eof => format!("the JSON breaks off ({error})"),
        _ => format!("this is no JSON ({error}); NaN, Infinity and comments are none"),
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Json(error) => Self::new(Kind::Malformed, no_json(&error)),
            Unread::Invalid(invalid) => invalid.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect()
    }

    #[test]
    fn a_type_that_is_not_taken_is_refused() {
        for kind in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON",
            "application/vnd.x+json",
        ] {
            assert_eq!(media(Takes::Json, &headers(kind)), Ok(Media::Json), "{kind}");
        }
        assert_eq!(media(Takes::Json, &HeaderMap::new()), Ok(Media::Json));
        assert_eq!(media(Takes::Batch, &headers("application/x-ndjson")), Ok(Media::Lines));
        for (takes, kind) in [
            (Takes::Json, "application/x-ndjson"),
            (Takes::Json, "text/plain"),
            (Takes::Batch, "multipart/form-data; boundary=x"),
            (Takes::Json, "application/x-www-form-urlencoded"),
            (Takes::Json, ""),
        ] {
            assert_eq!(media(takes, &headers(kind)).unwrap_err().kind(), Kind::MediaType, "{kind}");
        }
    }

    async fn taken(pieces: &[&'static str], most: u32) -> Result<Bytes, Problem> {
        let limits = Limits { body_bytes_max: most, ..Limits::default() };
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(*piece))).collect();
        let body = Body::from_stream(stream::iter(pieces));
        let budget = Budget::new(1 << 20);
        let read = read(Takes::Json, &HeaderMap::new(), body, &limits, &budget).await;
        read.map(|(_, bytes, _)| bytes)
    }

    #[tokio::test]
    async fn a_body_is_put_together_up_to_its_limit() {
        assert_eq!(taken(&["abc", "", "de", "f"], 6).await.unwrap(), "abcdef");
        assert_eq!(taken(&["abcdef"], 6).await.unwrap(), "abcdef");
        assert_eq!(taken(&[], 6).await.unwrap(), "");
        assert_eq!(taken(&["abc", "defg"], 6).await.unwrap_err().kind(), Kind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let (limits, budget) = (Limits::default(), Budget::new(1 << 20));
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let read = read(Takes::Json, &HeaderMap::new(), body, &limits, &budget).await;
        assert_eq!(read.unwrap_err().kind(), Kind::Slow);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn a_body_without_room_is_refused_before_it_is_read() {
        let (limits, budget) = (Limits::default(), Budget::new(1 << 10));
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let read = read(Takes::Json, &HeaderMap::new(), body, &limits, &budget).await;
        assert_eq!(read.unwrap_err().kind(), Kind::Busy);
    }

    #[test]
    fn what_is_no_json_says_where() {
        for text in [
            "{",
            "{\"a\":NaN}",
            "{\"a\":1e999}",
            "",
            "[1,]",
            "{'a':1}",
            "\u{feff}{}",
            "{\"a\":01}",
            "{\"a\":1,\"a\":1}",
        ] {
            let problem = json(text.as_bytes()).unwrap_err();
            assert_eq!(problem.kind(), Kind::Malformed, "{text}");
            assert!(problem.detail().contains("column"), "{}", problem.detail());
        }
        assert!(json(&[b'"', 0xff, b'"']).is_err());
        let deep = "[".repeat(10_000);
        assert!(json(deep.as_bytes()).is_err());
    }
}
