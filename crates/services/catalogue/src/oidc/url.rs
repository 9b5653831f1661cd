//! Checks URLs that carry secrets.

use axum::http::Uri;
use axum::http::uri::Scheme;

/// The fault of a URL that carries secrets: `https`, or `http` on this machine.
pub(super) fn url_fault(text: &str) -> Option<String> {
    let needs = || Some("write https://HOST/PATH; http is accepted for this machine only".to_owned());
    let Ok(uri) = text.parse::<Uri>() else { return needs() };
    let (Some(scheme), Some(host)) = (uri.scheme(), uri.host()) else { return needs() };
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_safe = *scheme == Scheme::HTTPS || (*scheme == Scheme::HTTP && is_local);
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if is_safe && !has_user { None } else { needs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_of_this_machine() {
        for url in ["https://login.example.org/realms/x", "http://localhost:8080/x", "http://[::1]/"] {
            assert_eq!(url_fault(url), None, "{url}");
        }
        for url in
            ["http://login.example.org", "login.example.org", "ftp://localhost", "https://u:p@h/", "", "/x"]
        {
            assert!(url_fault(url).is_some(), "{url}");
        }
    }
}
