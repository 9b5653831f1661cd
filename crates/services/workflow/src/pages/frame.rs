//! Frames every page: style, headers, and the formats of moments and links.

use axum::body::Body;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderValue, Response, StatusCode};
use maud::{DOCTYPE, Markup, html};
use plimsoll_service::reply;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The content security policy: a page loads only its style.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page with a title.
pub(super) fn page(title: &str, content: &Markup) -> Response<Body> {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                link rel="stylesheet" href="/style.css";
            }
            body { header { a href="/" { "Workflows" } } main { (content) } }
        }
    };
    let mut response = reply::text(StatusCode::OK, "text/html; charset=utf-8", text.into_string());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// A moment in UTC.
pub(super) fn moment(ms: u64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    at.ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{ms} ms"))
}

/// The text of a moment: empty without one, and "at once" for 0.
pub(super) fn due(ms: Option<u64>) -> String {
    match ms {
        None => String::new(),
        Some(0) => "at once".into(),
        Some(ms) => moment(ms),
    }
}

/// A text as a part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc_and_links_hold_any_id() {
        assert_eq!(moment(1_790_000_000_123), "2026-09-21T14:13:20.123Z");
        assert_eq!((due(None).as_str(), due(Some(0)).as_str()), ("", "at once"));
        assert_eq!(moment(u64::MAX), format!("{} ms", u64::MAX));
        assert_eq!(encoded("a/b?ä\"<"), "a%2Fb%3F%C3%A4%22%3C");
    }
}
