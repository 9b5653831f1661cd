//! What a service and its requests in a scenario mean: heads with holes, templates and checks, compiled before anything is
//! sent.

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
pub use workload::{Ground, Workload, Workloads};

mod auth;
mod body;
mod check;
mod compile;
mod endpoint;
mod error;
mod head;
mod pattern;
mod template;
mod url;
mod workload;

/// Documents of one request at most.
pub const BATCH_MAX: u32 = 1_000_000;
/// The largest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// What a plan adds to a section.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Seed of the documents' content; each operation has a share of its own, by its name.
    pub seed: u64,
    /// The moment that relative dates of templates count from, in milliseconds since 1970: for a service that judges times,
    /// the run's start.
    pub start_ms: i64,
    /// Where relative paths start.
    pub base: &'a Path,
}

/// All that the workers of a run share.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) endpoint: Endpoint,
    pub(crate) calls: Vec<Arc<Call>>,
    pub(crate) login: Option<Arc<Login>>,
    /// What says who sends the requests, if that is known before the run.
    pub(crate) authorization: Option<String>,
    /// Whether any answer is well: checks are made and counted, and decide nothing.
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
    /// Whether its documents are dealt, and may run out.
    pub makes: bool,
    /// Documents of one request.
    pub documents: u32,
}

/// How a token is asked for, and where it stands in the answer.
#[derive(Debug)]
pub(crate) struct Login {
    pub call: Call,
    pub token: crate::json::Path,
    pub place: String,
}

impl Setup {
    /// Compiles a section and the requests of a plan's operations, given by name. Their order is the engine's order of
    /// operations.
    ///
    /// # Errors
    /// The first thing that cannot be meant, with its place in the scenario and the mend.
    pub fn build(
        section: &Section,
        requests: &[(String, Request)],
        context: Context<'_>,
    ) -> Result<Self, Error> {
        Self::build_with(section, requests, context, &workload::none)
    }

    /// The same for requests whose bodies may be made by workloads.
    ///
    /// # Errors
    /// The first thing that cannot be meant, likewise.
    pub fn build_with(
        section: &Section,
        requests: &[(String, Request)],
        context: Context<'_>,
        workloads: Workloads<'_>,
    ) -> Result<Self, Error> {
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

    /// `host:port`, as the URL says it.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.endpoint.url.host_in_brackets(), self.endpoint.url.port)
    }

    /// How the service is spoken to.
    pub const fn protocol(&self) -> Protocol {
        self.endpoint.protocol
    }

    /// How long a request may take.
    pub const fn timeout(&self) -> Duration {
        self.endpoint.timeout
    }

    /// The same by way of another address, such as a proxy before the service: host and certificate stay as they are.
    #[must_use]
    pub fn by_way_of(&self, address: SocketAddr) -> Self {
        let mut other = self.clone();
        other.endpoint.address = Some(address);
        other
    }

    /// The same requests to the null server, for the ceiling: without a login, and with any answer taken for well, though it
    /// is checked all the same. Nothing under TLS and over HTTP/2: the null server speaks neither, and what another client
    /// reaches is no ceiling of this one.
    #[must_use]
    pub fn against(&self, address: SocketAddr) -> Option<Self> {
        let is_spoken = self.endpoint.tls.is_none() && self.endpoint.protocol == Protocol::Http1;
        let mut other = self.by_way_of(address);
        other.login = None;
        other.takes_any = true;
        is_spoken.then_some(other)
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
    fn what_cannot_be_meant_is_refused_with_its_place_and_the_mend() {
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
            (http, "get: /a b", "percent-encoded"),
            (http, "get: /{id}\nwith: {ide: 1}", "{ide}"),
            (http, "get: /{id}", "`with`"),
            (http, "get: /{id", "closing"),
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
        ] {
            let error = check(section, request).unwrap_err();
            assert!(error.contains(words), "{section} {request}: {error}");
        }
    }

    #[test]
    fn a_body_may_be_larger_than_a_document_of_a_database() {
        for body in ["{t: {$text: {bytes: 40000000}}}", "{t: {$bytes: {min: 1, max: 30000000}}}"] {
            let setup = check("url: http://h", &format!("post: /\nbody: {body}")).unwrap();
            assert_eq!(setup.calls.len(), 1);
        }
    }

    #[test]
    fn a_setup_knows_its_names_and_its_address() {
        let setup = check("url: https://[::1]/v1", "get: /a").unwrap();
        assert_eq!(setup.names().collect::<Vec<_>>(), ["op"]);
        assert_eq!((setup.authority().as_str(), setup.protocol()), ("[::1]:443", Protocol::Http1));
    }

    #[test]
    fn only_what_the_null_server_speaks_has_a_ceiling() {
        for (section, is_spoken) in [
            ("url: http://h", true),
            ("url: http://h\nauth: {login: {request: {post: /l}, token: t}}", true),
            ("url: http://h\nprotocol: http2", false),
            ("url: https://h", false),
        ] {
            let null = check(section, "get: /").unwrap().against(([127, 0, 0, 1], 9).into());
            assert_eq!(null.is_some(), is_spoken, "{section}");
            assert!(null.is_none_or(|null| null.login.is_none() && null.takes_any), "{section}");
        }
    }
}
