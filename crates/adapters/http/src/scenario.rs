//! Defines the HTTP section of a scenario, as typed.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_measure::duration::Span;
use plimsoll_measure::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use body::{Batch, Body, Form};
pub use check::{BodyCheck, Check, StatusMatch, Statuses, TextCheck, TextWanted, ValueCheck, Wanted};
pub use request::{Method, Request};

mod body;
mod check;
mod request;

/// How long a request, or connecting, may take when the scenario does not say.
const TIMEOUT_DEFAULT: Span = Span::from_secs(10);
/// The largest answer that is taken when the scenario does not say: 64 MiB.
const ANSWER_DEFAULT: Bytes = Bytes::new(64 << 20);
/// Streams of one HTTP/2 connection when the scenario does not say.
const STREAMS_DEFAULT: u32 = 50;

/// An HTTP service, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// Where it is: `http://host:port` or `https://host`, perhaps with a path that all requests begin with.
    pub url: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Headers of every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The sender of the requests.
    #[serde(skip_serializing_if = "Auth::is_none")]
    pub auth: Auth,
    /// Whose certificates are believed, for https.
    #[serde(skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
    /// How long a request may take before it is given up as unknown.
    pub timeout: Span,
    /// The limits of connections and answers.
    #[serde(skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            url: String::new(),
            protocol: Protocol::Http1,
            headers: BTreeMap::new(),
            auth: Auth::None,
            tls: Tls::default(),
            timeout: TIMEOUT_DEFAULT,
            limits: Limits::default(),
        }
    }
}

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1: each connection carries one request at a time and is kept.
    #[default]
    Http1,
    /// HTTP/2: several connections of the load are streams of one.
    Http2,
}

impl Protocol {
    /// The name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
        }
    }

    /// The name in a TLS handshake (ALPN).
    pub(crate) const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// The sender of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// Nobody in particular.
    #[default]
    None,
    /// A user with a password, in the header of every request.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// The bearer of a token that is known.
    Bearer {
        /// The token.
        token: Secret,
    },
    /// The bearer of a token that the service gives: asked for once a worker, and again when it is no longer taken.
    Login {
        /// The request that asks for the token.
        request: Box<Request>,
        /// Where it stands in the JSON of the answer: `access_token`, `data.token` or `/data/token`.
        token: String,
    },
}

impl Auth {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Something that nobody should read: as text, or `{env: NAME}` for the variable of that name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or {env: NAME}")]
pub enum Secret {
    /// As it is.
    Text(String),
    /// The value of an environment variable, so that the scenario does not contain it.
    Variable(Variable),
}

/// The name of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub env: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("\"…\""),
            Self::Variable(variable) => variable.fmt(f),
        }
    }
}

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with the authorities that are believed instead of the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Whether anybody's certificate is believed, also expired or for another host.
    pub insecure: bool,
}

impl Tls {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The limits of connections and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How long connecting may take, TLS included.
    pub connect_timeout: Span,
    /// The largest body of an answer that is taken.
    pub answer: Bytes,
    /// After so many requests a connection is closed and opened again, outside of what is timed; never if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// With HTTP/2, how many connections of the load are streams of one.
    pub streams_per_connection: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_timeout: TIMEOUT_DEFAULT,
            answer: ANSWER_DEFAULT,
            requests_per_connection: None,
            streams_per_connection: STREAMS_DEFAULT,
        }
    }
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Result<Section, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_reads_as_one_types_it() {
        let section = check(
            "url: https://api.example/v1\nprotocol: http2\nheaders: {accept: application/json}\n\
             auth: {basic: {user: eve, password: {env: EVE}}}\ntls: {insecure: true}\ntimeout: 2s\n\
             limits: {answer: 1MB, streams_per_connection: 4}",
        )
        .unwrap();
        assert_eq!((section.protocol, section.timeout), (Protocol::Http2, Span::from_secs(2)));
        assert!(section.tls.insecure);
        assert_eq!(
            section.limits,
            Limits { answer: Bytes::new(1_000_000), streams_per_connection: 4, ..Limits::default() }
        );
        let Auth::Basic { user, password } = &section.auth else { panic!("{:?}", section.auth) };
        assert_eq!((user.as_str(), password), ("eve", &Secret::Variable(Variable { env: "EVE".into() })));
    }

    #[test]
    fn a_login_is_a_request_and_a_place_in_its_answer() {
        let section = check(
            "url: http://h\nauth: {login: {request: {post: /login, body: {user: eve}}, token: data.token}}",
        )
        .unwrap();
        let Auth::Login { request, token } = section.auth else { panic!() };
        assert_eq!(
            (request.method, request.path.as_str(), token.as_str()),
            (Method::Post, "/login", "data.token")
        );
    }

    #[test]
    fn unknown_keys_are_refused_at_every_depth() {
        for yaml in
            ["url: x\nhost: y", "tls: {cert: x}", "auth: {basic: {user: a, pass: b}}", "limits: {body: 1MB}"]
        {
            assert!(check(yaml).is_err(), "{yaml}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let shown = format!("{:?}", Auth::Bearer { token: Secret::Text("s3cret".into()) });
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn what_was_read_is_written_and_read_back_the_same() {
        let section =
            check("url: http://h\nauth: {bearer: {token: t}}\nlimits: {requests_per_connection: 9}").unwrap();
        let json = serde_json::to_string(&section).unwrap();
        assert_eq!(serde_json::from_str::<Section>(&json).unwrap(), section);
    }
}
