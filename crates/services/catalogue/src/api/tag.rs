//! Tags answers, so that a client does not download an answer that it already has.

use axum::body::Body;
use axum::http::header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use axum::http::{Response, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use plimsoll_service::reply;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// The number of bytes of the hash in a tag.
const HASH_BYTES: usize = 16;

/// A JSON answer with its tag; 304 without a body if the client has it.
pub(super) fn json(status: StatusCode, body: &Value, request: &HeaderMap) -> Response<Body> {
    let text = body.to_string();
    let tag = tag(&text);
    let mut response = if status == StatusCode::OK && has(request, &tag) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::text(status, "application/json", text)
    };
    if let Ok(value) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

fn tag(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    format!("W/\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..HASH_BYTES]))
}

/// Whether one of the tags of `If-None-Match` is this one. Weak comparison (RFC 9110, section 8.8.3.2).
fn has(request: &HeaderMap, tag: &str) -> bool {
    let tags = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    tags.flat_map(|tags| tags.split(',')).any(|known| known.trim() == "*" || bare(known) == bare(tag))
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    fn ask(tags: &str, status: StatusCode) -> u16 {
        let request = [(IF_NONE_MATCH, tags.parse().unwrap())].into_iter().collect();
        json(status, &value!({"a": 1}), &request).status().as_u16()
    }

    #[test]
    fn a_client_that_has_the_answer_gets_none() {
        let answer = json(StatusCode::OK, &value!({"a": 1}), &HeaderMap::new());
        let tag = answer.headers()[ETAG].to_str().unwrap().to_owned();
        assert_eq!((answer.status().as_u16(), tag.starts_with("W/\"")), (200, true));
        for tags in [tag.clone(), tag.trim_start_matches("W/").into(), format!("\"x\", {tag}"), "*".into()] {
            assert_eq!(ask(&tags, StatusCode::OK), 304, "{tags}");
            assert_eq!(ask(&tags, StatusCode::CREATED), 201, "only a read is left out");
        }
        assert_eq!(ask("\"x\"", StatusCode::OK), 200);
    }
}
