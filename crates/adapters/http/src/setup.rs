//! Compiles a scenario's section and requests to heads with placeholders, templates and checks, before the load.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::scenario::{Method, Protocol, Request, Section};

pub(crate) use auth::is_token;
pub(crate) use body::Body;
pub(crate) use check::{Checks, Condition, TextWant, ValueWant};
use compile::Compiler;
pub(crate) use endpoint::Endpoint;
pub use error::Error;
use head::Token;
pub(crate) use head::{Head, Piece};
pub(crate) use template::Values;
pub(crate) use url::Url;
pub use workload::{PARTS_MAX, Part, ReadBack, Shown, Workload, WorkloadContext, Workloads};

mod auth;
mod body;
mod check;
mod compile;
mod endpoint;
mod error;
mod head;
mod pattern;
mod read_back;
mod template;
mod url;
mod workload;

/// The maximum number of documents of one request.
pub const BATCH_MAX: u32 = 1_000_000;
/// The maximum size of a request's body in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// The run's values for a setup.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The seed of the documents' content. Each operation derives its seed from this seed and its name.
    pub seed: u64,
    /// The base of relative dates in templates, in milliseconds since 1970: for a service that checks times, the run's start.
    pub start_ms: i64,
    /// The base of relative paths.
    pub base: &'a Path,
}

/// The settings that all workers of a run share.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) endpoint: Endpoint,
    pub(crate) calls: Vec<Arc<Call>>,
    pub(crate) login: Option<Arc<Login>>,
    /// The `authorization` header, if it is known before the run.
    pub(crate) authorization: Option<String>,
    /// Whether every answer counts as acknowledged: checks are counted but do not affect the outcome.
    pub(crate) takes_any: bool,
}

/// One operation: a request, compiled.
#[derive(Debug)]
pub(crate) struct Call {
    pub name: String,
    pub method: Method,
    pub head: Head,
    pub with: Option<Values>,
    pub body: Body,
    pub checks: Checks,
    /// Whether its documents are numbered and may be limited.
    pub makes: bool,
    /// The number of documents of one request.
    pub documents: u32,
    /// The request that reads one of its documents back, by the document's number.
    pub read_back: Option<Arc<Call>>,
    /// The fields of its documents whose value is the time of sending.
    pub times: Vec<String>,
    /// The workload whose parts this request reads back, by the part's number.
    pub reads: Option<Arc<dyn Workload>>,
}

impl Call {
    /// Whether the body of an answer is needed.
    pub fn needs_body(&self) -> bool {
        self.checks.needs_body() || self.reads.is_some()
    }

    /// The read-back of the workload whose parts this request reads.
    pub fn reader(&self) -> Option<&dyn ReadBack> {
        self.reads.as_ref()?.read_back()
    }

    /// The request line with field names in place of values, and the number of documents.
    pub fn sample(&self) -> String {
        let mut line = Vec::new();
        for piece in &self.head.pieces {
            match piece {
                Piece::Bytes(bytes) => line.extend_from_slice(bytes),
                Piece::Url(field) => {
                    let name = self.with.as_ref().and_then(|with| with.names.get(*field));
                    line.extend_from_slice(format!("{{{}}}", name.map_or("", String::as_str)).as_bytes());
                }
                Piece::Header(_) | Piece::Token | Piece::Length | Piece::Path => break,
            }
            if line.contains(&b'\r') {
                break;
            }
        }
        let line = String::from_utf8_lossy(&line);
        let request = line.split(" HTTP/").next().unwrap_or_default();
        match self.documents {
            0 | 1 => request.to_owned(),
            documents => format!("{request} with {documents} documents"),
        }
    }
}

/// The login request, and the path of the token in its answer.
#[derive(Debug)]
pub(crate) struct Login {
    pub call: Call,
    pub token: crate::json::Path,
    pub place: String,
}

impl Setup {
    /// Compiles a section and the named requests of a plan's operations, in the engine's order of operations.
    ///
    /// # Errors
    /// The first invalid setting, with its place in the scenario and the fix.
    pub fn build(
        section: &Section,
        requests: &[(String, Request)],
        context: Context<'_>,
    ) -> Result<Self, Error> {
        Self::build_with(section, requests, context, &workload::none)
    }

    /// As [`Setup::build`], but workloads may generate bodies.
    ///
    /// # Errors
    /// As [`Setup::build`].
    pub fn build_with(
        section: &Section,
        requests: &[(String, Request)],
        context: Context<'_>,
        workloads: Workloads<'_>,
    ) -> Result<Self, Error> {
        read_back::check(requests)?;
        let url: Url = section.url.parse()?;
        let authorization = auth::authorization(&section.auth)?;
        let authority = authorization.as_deref();
        let compiler = Compiler { section, url: &url, authorization: authority, context, workloads };
        let token = Token::of(section);
        let calls = requests.iter().map(|(name, request)| compiler.call(name, request, token).map(Arc::new));
        let (calls, login) = (calls.collect::<Result<_, _>>()?, compiler.login()?.map(Arc::new));
        Ok(Self {
            calls,
            login,
            endpoint: Endpoint::build(section, url.clone(), context.base)?,
            authorization,
            takes_any: false,
        })
    }

    /// The names of the operations, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.name.as_str())
    }

    /// `host:port` of the URL.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.endpoint.url.host_in_brackets(), self.endpoint.url.port)
    }

    /// The protocol.
    pub const fn protocol(&self) -> Protocol {
        self.endpoint.protocol
    }

    /// The time limit of a request.
    pub const fn timeout(&self) -> Duration {
        self.endpoint.timeout
    }

    /// Connects to another address, such as a proxy in front of the service. Host and certificate stay the same.
    #[must_use]
    pub fn by_way_of(&self, address: SocketAddr) -> Self {
        let mut other = self.clone();
        other.endpoint.address = Some(address);
        other
    }

    /// The requests that read the documents back, in place of the operations; `None` if no operation has one.
    pub(crate) fn reading_back(&self) -> Option<Self> {
        let read = |call: &Arc<Call>| call.read_back.clone().unwrap_or_else(|| Arc::clone(call));
        let calls = self.calls.iter().map(read).collect();
        self.reads_back().then(|| Self { calls, ..self.clone() })
    }

    /// Whether documents of an operation are read back after the load.
    pub fn reads_back(&self) -> bool {
        self.calls.iter().any(|call| call.read_back.is_some())
    }

    /// A sentence for each field of the documents to read back that the audit cannot judge.
    pub fn not_judged(&self) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| call.read_back.is_some());
        let sentence = |name: &str, field: &str| {
            format!("The field {field} of {name} is not judged: its value is the time of sending ($now).")
        };
        calls.flat_map(|call| call.times.iter().map(|field| sentence(&call.name, field))).collect()
    }

    /// Sends the same requests to the null server to find the ceiling: without a login, and every answer
    /// counts as acknowledged. `None` for TLS and HTTP/2, which the null server does not support: the ceiling
    /// of another client would say nothing about this client.
    #[must_use]
    pub fn against(&self, address: SocketAddr) -> Option<Self> {
        let is_supported = self.endpoint.tls.is_none() && self.endpoint.protocol == Protocol::Http1;
        let mut other = self.by_way_of(address);
        other.login = None;
        other.takes_any = true;
        is_supported.then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(section: &str, request: &str) -> Result<Setup, String> {
        let section: Section = serde_saphyr::from_str(section).unwrap();
        let request: Request = serde_saphyr::from_str(request).unwrap();
        let context = Context { seed: 1, start_ms: 0, base: Path::new(".") };
        Setup::build(&section, &[("op".to_owned(), request)], context).map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_settings_are_refused_with_their_place_and_the_fix() {
        let http = "url: http://h";
        for (section, request, words) in [
            ("url: ftp://h", "get: /", "http.url"),
            ("url: http://h\ntls: {insecure: true}", "get: /", "https"),
            ("url: https://h\ntls: {insecure: true, ca: x.pem}", "get: /", "http.tls"),
            ("url: https://h\ntls: {ca: /nowhere.pem}", "get: /", "/nowhere.pem"),
            ("url: http://h\nlimits: {streams_per_connection: 0}", "get: /", "streams_per_connection"),
            ("url: http://h\ntimeout: 0s", "get: /", "http.timeout"),
            ("url: http://h\nauth: {bearer: {token: {env: PLIMSOLL_NO_SUCH}}}", "get: /", "PLIMSOLL_NO_SUCH"),
            (
                "url: http://h\nauth: {login: {request: {post: /l}, token: a..b}}",
                "get: /",
                "http.auth.login.token",
            ),
            (
                "url: http://h\nauth: {bearer: {token: t}}",
                "get: /\nheaders: {Authorization: x}",
                "op.request.headers",
            ),
            (http, "get: orders", "begin with /"),
            (http, "get: /a b", "percent-encode it"),
            (http, "get: /{id}\nwith: {ide: 1}", "{ide}"),
            (http, "get: /{id}", "`with`"),
            (http, "get: /{id", "unmatched brace"),
            (http, "get: /\nbody: {n: 1}", "post"),
            (http, "head: /\ncheck: {json: {a: 1}}", "no body"),
            (http, "post: /\nbody: {n: {$txt: {}}}", "op.request.body"),
            (http, "post: /\nbody: {workload: {iot: {}}}", "op.request.body.workload: there is no workload"),
            (http, "post: /\nbody: {n: {$numberDouble: NaN}}", "op.request.body.n"),
            (http, "post: /\nbody: {n: {$minKey: 1}}", "$minKey"),
            (http, "post: /\nbody: {n: {$now: {as: days}}}", "op.request.body.n.$now"),
            (http, "post: /\nbody: {batch: {documents: 0, document: {n: 1}}}", "1000000"),
            (
                http,
                "post: /\nbody: {batch: {documents: 1000000, document: {t: {$text: {bytes: 999}}}}}",
                "64 MiB",
            ),
            (http, "post: /\nbody: {t: {$text: {bytes: 68000000}}}", "64 MiB"),
            (http, "post: /\nbody: {t: {$text: {min: 1, max: 68000000}}}", "64 MiB"),
            (http, "get: /\nheaders: {content-length: 5}", "content-length"),
            (http, "get: /\nheaders: {'a b': c}", "a b"),
            (http, "get: /\ncheck: {status: 2yy}", "op.request.check.status"),
            (http, "get: /\ncheck: {json: {a..b: 1}}", "op.request.check.json"),
            (http, "get: /\ncheck: {json: {a: {}}}", "op.request.check.json.a"),
            (http, "get: /\nread_back: {get: /a}", "only a request whose body is a document"),
            (http, "post: /\nbody: {n: 1}\nread_back: {post: /a}", "write get or head"),
            (http, "post: /\nbody: {n: 1}\nread_back: {get: '/{m}'}", "{m}"),
            (http, "post: /\nbody: {n: 1}\nread_back: {get: /a, with: {m: 1}}", "leave `with` out"),
            (http, "post: /\nbody: {n: {$now: {}}}\nread_back: {get: '/{n}'}", "time of sending"),
            (http, "post: /\nbody: {n: {$number: {}}}\nread_back: {get: /a}", "tell them apart"),
            (http, "post: /\nbody: {n: 1, m: {$number: {}}}\nread_back: {get: '/{n}'}", "tell them apart"),
            (http, "delete: /\nbody: {n: {$number: {}}}\nread_back: {get: '/{n}'}", "may remove"),
            (
                http,
                "post: /\nbody: {n: 1}\nread_back: {get: /a, read_back: {get: /b}}",
                "leave its `read_back` out",
            ),
        ] {
            let error = check(section, request).unwrap_err();
            assert!(error.contains(words), "{section} {request}: {error}");
        }
    }

    #[test]
    fn a_body_may_be_larger_than_a_database_document() {
        for body in ["{t: {$text: {bytes: 40000000}}}", "{t: {$bytes: {min: 1, max: 30000000}}}"] {
            let setup = check("url: http://h", &format!("post: /\nbody: {body}")).unwrap();
            assert_eq!(setup.calls.len(), 1);
        }
    }

    #[test]
    fn a_setup_returns_its_names_and_its_address() {
        let setup = check("url: https://[::1]/v1", "get: /a").unwrap();
        assert_eq!(setup.names().collect::<Vec<_>>(), ["op"]);
        assert_eq!((setup.authority().as_str(), setup.protocol()), ("[::1]:443", Protocol::Http1));
    }

    #[test]
    fn only_protocols_of_the_null_server_have_a_ceiling() {
        for (section, is_supported) in [
            ("url: http://h", true),
            ("url: http://h\nauth: {login: {request: {post: /l}, token: t}}", true),
            ("url: http://h\nprotocol: http2", false),
            ("url: https://h", false),
        ] {
            let null = check(section, "get: /").unwrap().against(([127, 0, 0, 1], 9).into());
            assert_eq!(null.is_some(), is_supported, "{section}");
            assert!(null.is_none_or(|null| null.login.is_none() && null.takes_any), "{section}");
        }
    }
}
