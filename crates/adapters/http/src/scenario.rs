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

/// The time limit of a request, and of connecting, when the scenario sets none.
const TIMEOUT_DEFAULT: Span = Span::from_secs(10);
/// The largest accepted answer when the scenario sets no limit: 64 MiB.
const ANSWER_DEFAULT: Bytes = Bytes::new(64 << 20);
/// Streams of one HTTP/2 connection when the scenario sets no number.
const STREAMS_DEFAULT: u32 = 50;

/// An HTTP service, as typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// The address: `http://host:port` or `https://host`, perhaps with a path that prefixes all requests.
    pub url: String,
    /// The protocol of the service.
    pub protocol: Protocol,
    /// Headers of every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The credentials of the requests.
    #[serde(skip_serializing_if = "Auth::is_none")]
    pub auth: Auth,
    /// The accepted certificates, for https.
    #[serde(skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
    /// The time limit of a request; afterwards its outcome is unknown.
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

/// The protocol of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1: each connection carries one request at a time and stays open.
    #[default]
    Http1,
    /// HTTP/2: several connections of the load are streams of one HTTP/2 connection.
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

/// The credentials of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// No credentials.
    #[default]
    None,
    /// A user with a password, in the header of every request.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A fixed bearer token.
    Bearer {
        /// The token.
        token: Secret,
    },
    /// A bearer token from the service: requested once per worker, and again when the service rejects it.
    Login {
        /// The request for the token.
        request: Box<Request>,
        /// The path of the token in the JSON of the answer: `access_token`, `data.token` or `/data/token`.
        token: String,
    },
}

impl Auth {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A secret: as text, or `{env: NAME}` for the environment variable of that name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or {env: NAME}")]
pub enum Secret {
    /// The secret itself.
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

/// The accepted certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// A PEM file of CAs to trust instead of the public CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Whether any certificate is accepted, even if expired or for another host.
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
    /// The time limit of connecting, TLS included.
    pub connect_timeout: Span,
    /// The largest accepted body of an answer.
    pub answer: Bytes,
    /// The number of requests after which a connection is reopened, outside the measured time; unlimited if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// With HTTP/2, the number of the load's connections that share one HTTP/2 connection.
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
    fn a_typed_section_is_read() {
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
    fn a_login_is_a_request_and_a_path_in_its_answer() {
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
    fn a_section_is_written_and_read_back_unchanged() {
        let section =
            check("url: http://h\nauth: {bearer: {token: t}}\nlimits: {requests_per_connection: 9}").unwrap();
        let json = serde_json::to_string(&section).unwrap();
        assert_eq!(serde_json::from_str::<Section>(&json).unwrap(), section);
    }
}
