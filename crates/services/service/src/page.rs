//! Frames the pages of a service for browsers: style, headers and links. A page has no script and loads nothing from elsewhere.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderValue, Response, StatusCode};
use maud::{DOCTYPE, Markup, html};

use crate::reply;

/// The content security policy: a page loads only its style, and shows images that it contains.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The style of all pages.
const STYLE: &str = include_str!("page.css");

/// A page with a title, below a header.
pub fn page(status: StatusCode, header: &Markup, title: &str, content: &Markup) -> Response<Body> {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                link rel="stylesheet" href="/style.css";
            }
            body { header { (header) } main { (content) } }
        }
    };
    let mut response = reply::text(status, "text/html; charset=utf-8", text.into_string());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // It may show data of its user.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The style of all pages, which a service serves as `/style.css`, with more rules after it.
pub fn style(more: &str) -> Response<Body> {
    reply::text(StatusCode::OK, "text/css; charset=utf-8", [STYLE, more].concat())
}

/// A text as a part of a path or a query.
pub fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_any_text() {
        assert_eq!(encoded("a/b?ä\"<"), "a%2Fb%3F%C3%A4%22%3C");
    }

    #[tokio::test]
    async fn a_page_escapes_its_title_and_runs_no_script() {
        let page = page(StatusCode::OK, &html! { a href="/" { "Home" } }, "<b>", &html! { p { "x" } });
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("script"), "{policy}");
        let body = axum::body::to_bytes(page.into_body(), 10_000).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains("<title>&lt;b&gt;</title>") && text.contains("<p>x</p>"), "{text}");
    }
}
