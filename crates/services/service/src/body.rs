//! Reads request bodies within limits of type, size and time, and parses JSON.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use futures_util::StreamExt;
use serde_json::Value;
use serde_json::error::Category;

use crate::arrivals::Refused;
use crate::budget::{Budget, Reservation};
use crate::limits::Limits;
use crate::lines::Lines;
use crate::problem::{Kind, Problem};
use crate::strict_json;

/// The body that an endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No body.
    Nothing,
    /// JSON, up to `body_bytes_max`.
    Json,
    /// The fields of an HTML form, up to `body_bytes_max`.
    Form,
    /// A JSON array or lines of JSON, up to `batch_bytes_max`.
    Batch,
    /// Any number of lines of JSON, each an ordinary body in size and time, which the endpoint reads as they arrive.
    Stream,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// Lines of JSON.
    Lines,
}

/// The number of bytes that the service discards of a body that is too large: many clients read the answer
/// only after sending.
const DISCARDED_BYTES_MAX: u64 = 32 << 20;

/// Reads the body of a request, and its format. The reservation grows as the body arrives: a slow upload holds no more memory
/// than its bytes.
pub(crate) async fn read(
    takes: Takes,
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    budget: &Budget,
) -> Result<(Media, Bytes, Option<Reservation>), Problem> {
    let most = match takes {
        Takes::Nothing | Takes::Stream => return Ok((Media::Json, Bytes::new(), None)),
        Takes::Json | Takes::Form => limits.body_bytes_max,
        Takes::Batch => limits.batch_bytes_max,
    };
    let media = media(takes, headers)?;
    let length = length(headers);
    if length.is_some_and(|length| length > u64::from(most)) {
        return Err(refuse_large(body, most, limits).await);
    }
    let memory = budget.reservation();
    let collected = tokio::time::timeout(limits.body.duration(), collect(body, most, &memory)).await;
    match collected {
        Err(_) => {
            let detail =
                format!("the body did not arrive within {}: send it faster, or send less", limits.body);
            Err(Problem::new(Kind::Slow, detail))
        }
        Ok(Ok(bytes)) => Ok((media, bytes, Some(memory))),
        Ok(Err(Broken::Large(body))) => Err(refuse_large(body, most, limits).await),
        Ok(Err(Broken::Busy)) => Err(busy()),
        Ok(Err(Broken::Transport)) => {
            Err(Problem::new(Kind::Malformed, "the body ended early: send all of it"))
        }
    }
}

/// The lines of a body that the endpoint reads as they arrive.
pub(crate) fn lines(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    budget: &Budget,
) -> Result<Lines, Problem> {
    if media(Takes::Stream, headers)? != Media::Lines {
        return Err(Problem::new(Kind::MediaType, "send `Content-Type: application/x-ndjson`"));
    }
    Ok(Lines::new(body, limits.body.duration(), limits.body_bytes_max as usize, budget.reservation()))
}

fn busy() -> Problem {
    Problem::new(Kind::Busy, "too many request bodies are in memory: retry later").retry_after(1)
}

/// The problem of a body that finds no place, or makes room for another.
pub(crate) fn refused(reason: Refused) -> Problem {
    let detail = match reason {
        Refused::Full => "too many request bodies arrive: retry later",
        Refused::Displaced => {
            "too many request bodies arrive, and this one takes the longest: send it faster, or retry later"
        }
    };
    Problem::new(Kind::Busy, detail).retry_after(1)
}

enum Broken {
    /// The body is too large; this is the rest of it.
    Large(Body),
    /// The bodies in memory use the whole budget.
    Busy,
    Transport,
}

/// Collects a body. A single piece is not copied.
async fn collect(body: Body, most: u32, memory: &Reservation) -> Result<Bytes, Broken> {
    let mut stream = body.into_data_stream();
    let (mut first, mut rest) = (Bytes::new(), Vec::new());
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| Broken::Transport)?;
        if first.len() + rest.len() + piece.len() > most as usize {
            return Err(Broken::Large(Body::from_stream(stream)));
        }
        memory.grow(piece.len()).map_err(|_| Broken::Busy)?;
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
    // The answer is the same if the rest cannot be discarded.
    tokio::time::timeout(limits.body.duration(), discard).await.unwrap_or_default();
    Problem::new(Kind::TooLarge, format!("the body has more than {most} bytes: send less per request"))
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads the format from `Content-Type`. A body without one counts as JSON, as simple clients send it. A
/// browser could send such a body without a preflight, but the middleware has already refused it by its
/// `Origin` or its missing key.
fn media(takes: Takes, headers: &HeaderMap) -> Result<Media, Problem> {
    if takes == Takes::Form {
        // The endpoint takes no other format.
        return form(headers).map(|()| Media::Json);
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Media::Json) };
    if value == HeaderValue::from_static("application/json") {
        return Ok(Media::Json);
    }
    let name = kind(value);
    match name.as_str() {
        "application/json" => Ok(Media::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" if takes != Takes::Json => {
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

/// The media type, without its parameters.
fn kind(value: &HeaderValue) -> String {
    let value = value.to_str().unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A form comes from a page of this service: a browser that uses TLS, or runs on this machine, names the page of another site in `Sec-Fetch-Site`.
fn form(headers: &HeaderMap) -> Result<(), Problem> {
    let is_own = |site: &HeaderValue| site == "same-origin" || site == "none";
    if !headers.get("sec-fetch-site").is_none_or(is_own) {
        return Err(Problem::new(
            Kind::Forbidden,
            "a page of another site sent this form: open the page of the service",
        ));
    }
    match headers.get(CONTENT_TYPE).map(kind).as_deref() {
        Some("application/x-www-form-urlencoded") => Ok(()),
        _ => Err(Problem::new(Kind::MediaType, "send `Content-Type: application/x-www-form-urlencoded`")),
    }
}

/// Parses a body as JSON without duplicate keys.
///
/// # Errors
/// A [`Problem`] with the position.
pub fn json(bytes: &[u8]) -> Result<Value, Problem> {
    strict_json::parse(bytes).map_err(|error| Problem::new(Kind::Malformed, invalid_json(&error)))
}

/// Explains why a text is not JSON.
pub fn invalid_json(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => error.to_string(),
        Category::Eof => format!("the JSON ends early ({error})"),
        _ => format!("invalid JSON ({error}); NaN, Infinity and comments are not allowed"),
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
    fn an_unsupported_content_type_is_refused() {
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

    #[test]
    fn a_form_comes_from_a_page_of_the_service() {
        let form = "application/x-www-form-urlencoded";
        let of = |site: &'static str| {
            let mut headers = headers(form);
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            media(Takes::Form, &headers).map_err(|problem| problem.kind())
        };
        assert_eq!((of("same-origin"), of("none")), (Ok(Media::Json), Ok(Media::Json)));
        assert_eq!((of("cross-site"), of("same-site")), (Err(Kind::Forbidden), Err(Kind::Forbidden)));
        assert_eq!(
            media(Takes::Form, &headers("application/x-www-form-urlencoded; charset=utf-8")),
            Ok(Media::Json)
        );
        assert_eq!(media(Takes::Form, &headers("application/json")).unwrap_err().kind(), Kind::MediaType);
        assert_eq!(media(Takes::Form, &HeaderMap::new()).unwrap_err().kind(), Kind::MediaType);
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
    async fn a_body_is_collected_up_to_its_limit() {
        assert_eq!(taken(&["abc", "", "de", "f"], 6).await.unwrap(), "abcdef");
        assert_eq!(taken(&["abcdef"], 6).await.unwrap(), "abcdef");
        assert_eq!(taken(&[], 6).await.unwrap(), "");
        assert_eq!(taken(&["abc", "defg"], 6).await.unwrap_err().kind(), Kind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let (limits, budget) = (Limits::default(), Budget::new(1 << 20));
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let read = read(Takes::Json, &HeaderMap::new(), body, &limits, &budget).await;
        assert_eq!(read.unwrap_err().kind(), Kind::Slow);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn a_body_beyond_the_budget_is_refused_before_all_of_it_is_read() {
        let (limits, budget) = (Limits::default(), Budget::new(1 << 10));
        let pieces = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1_025]))]);
        let body = Body::from_stream(pieces.chain(stream::pending()));
        let read = read(Takes::Json, &HeaderMap::new(), body, &limits, &budget).await;
        assert_eq!(read.unwrap_err().kind(), Kind::Busy);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn invalid_json_is_refused_with_its_position() {
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
