//! Frames every page, and formats moments.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use maud::{Markup, html};
use plimsoll_service::page;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(super) use plimsoll_service::page::encoded;

/// A page with a title.
pub(super) fn page(title: &str, content: &Markup) -> Response<Body> {
    page::page(StatusCode::OK, &html! { a href="/" { "Workflows" } }, title, content)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(1_790_000_000_123), "2026-09-21T14:13:20.123Z");
        assert_eq!((due(None).as_str(), due(Some(0)).as_str()), ("", "at once"));
        assert_eq!(moment(u64::MAX), format!("{} ms", u64::MAX));
    }
}
