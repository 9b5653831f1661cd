//! Lets the pages of listed origins use a service from a browser (CORS: the section "CORS protocol" of the Fetch standard).
//!
//! A browser sends no cookies for them: a page authorises its requests by a header.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use serde::{Deserialize, Serialize};

use crate::reply;

/// The entry that allows every origin.
const ANY: &str = "*";
/// The schemes of pages, each with the port that browsers leave out.
const SCHEMES: [(&str, &str); 2] = [("https://", "443"), ("http://", "80")];
/// The remedy for a text that is no origin.
const FORM: &str = "write https://HOST or http://HOST:PORT in lower case, an address in its shortest form, without a path, or *";
/// The remedy for an origin with the port of its scheme.
const DEFAULT_PORT: &str = "leave out the default port, because browsers leave it out";
/// The maximum number of origins.
const ORIGINS_MAX: usize = 100;
/// The methods of all services.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// The headers of an answer that a page may read, besides those that it always may.
const EXPOSED: &str = "etag, retry-after";
/// The time for which a browser remembers the answer to a preflight request, in seconds.
const MAX_AGE_S: &str = "600";

/// The origins whose pages may use a service. Without any, browsers keep pages of other origins out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins such as `https://data.example.org`, or `*` for all.
    pub origins: Vec<String>,
}

impl Cors {
    /// The reason why an origin is invalid, or `None`.
    pub fn fault(&self) -> Option<String> {
        if self.origins.len() > ORIGINS_MAX {
            return Some(format!("origins lists more than {ORIGINS_MAX}: list fewer"));
        }
        let mut faults = self.origins.iter().filter_map(|origin| Some((origin, fault_of(origin)?)));
        faults.next().map(|(origin, fault)| format!("origins lists {origin:?}: {fault}"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// The value of `Access-Control-Allow-Origin` for a request; `None` if its page may not use the service.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(ORIGIN)?;
        if self.allows_any() {
            return Some(HeaderValue::from_static(ANY));
        }
        self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    fn allows_any(&self) -> bool {
        self.origins.iter().any(|origin| origin == ANY)
    }
}

/// The reason why no browser sends a text as an origin, or `None`.
fn fault_of(text: &str) -> Option<&'static str> {
    if text == ANY {
        return None;
    }
    let of_scheme = |(scheme, default): (&str, &'static str)| Some((text.strip_prefix(scheme)?, default));
    let Some((rest, default)) = SCHEMES.into_iter().find_map(of_scheme) else { return Some(FORM) };
    // The last colon of an IPv6 address in brackets begins no port.
    let port = rest.rsplit_once(':').filter(|_| !rest.ends_with(']'));
    let (host, port) = port.map_or((rest, None), |(host, port)| (host, Some(port)));
    if port == Some(default) {
        return Some(DEFAULT_PORT);
    }
    let is_valid = is_host(host) && port.is_none_or(is_port);
    (!is_valid).then_some(FORM)
}

/// Whether a text is a name or an IP address as browsers write it.
fn is_host(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse().is_ok_and(|parsed| ipv6_text(parsed) == address);
    }
    if ends_in_number(text) {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || ".-_".contains(it);
    text.chars().all(plain) && text.contains(|it: char| it.is_ascii_alphanumeric())
}

/// An address as browsers write it: in the short form, and without dots (the section "Host serializing" of the URL standard).
fn ipv6_text(address: Ipv6Addr) -> String {
    match (address.to_ipv4_mapped(), address.segments()) {
        (Some(_), [.., high, low]) => format!("::ffff:{high:x}:{low:x}"),
        _ => address.to_string(),
    }
}

/// Whether browsers read a host as an IPv4 address ("ends in a number" of the URL standard).
fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_decimal || last.strip_prefix("0x").is_some_and(is_hex)
}

/// Whether a text is a port, without leading zeros.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port != 0 && port.to_string() == text)
}

/// Answers the preflight requests of listed origins, and marks the answers that their pages may read.
pub(crate) async fn layer(State(cors): State<Arc<Cors>>, request: Request, next: Next) -> Response<Body> {
    let allowed = cors.allowed(request.headers());
    let mut response = match &allowed {
        Some(_) if is_preflight(&request) => preflight(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    if !cors.allows_any() {
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight request. The page may send any header, as other clients may.
fn preflight(request: &HeaderMap) -> Response<Body> {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    if let Some(asked) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_alone() {
        let fault = |origin: &str| Cors { origins: vec![origin.into()] }.fault();
        for origin in [
            "*",
            "https://data.example.org",
            "http://localhost:4200",
            "http://[::1]",
            "http://[::1]:4200",
            "http://[2001:db8::1:0:0:1]",
            "http://[::ffff:7f00:1]",
            "http://127.0.0.1:443",
            "http://127.0.0.1.example.org",
            "http://1a",
            "https://a_b-c:80",
        ] {
            assert_eq!(fault(origin), None, "{origin}");
        }
        for origin in [
            "",
            "data.example.org",
            "https://",
            "https://a/",
            "https://a/b",
            "https://A",
            "ftp://a",
            "null",
            "https://*",
            "https://:::",
            "https://a:b:1",
            "https://-",
            "http://[",
            "http://[]",
            "http://[::A]",
            "http://[0::1]",
            "http://[0:0:0:0:0:0:0:1]",
            "http://[2001:db8:0:0:1::1]",
            "http://[::ffff:127.0.0.1]",
            "http://127.1",
            "http://127.0.0.01",
            "http://127.0.0.0x1",
            "http://127.0.0.1.",
            "http://2130706433",
            "http://a.1",
            "http://a:",
            "http://a:0",
            "http://a:080",
            "http://a:65536",
            "http://:4200",
        ] {
            assert!(fault(origin).is_some_and(|fault| fault.contains("without a path")), "{origin}");
        }
        for origin in ["https://data.example.org:443", "http://a:80", "http://[::1]:80"] {
            assert!(
                fault(origin).is_some_and(|fault| fault.contains("leave out the default port")),
                "{origin}"
            );
        }
        assert!(Cors { origins: vec!["*".into(); 101] }.fault().is_some());
    }
}
