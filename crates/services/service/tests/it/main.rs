//! Tests a small service with two endpoints.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use plimsoll_service::limits::Rate;
use plimsoll_service::metrics::Page;
use plimsoll_service::openapi::{body, responses};
use plimsoll_service::security::config::{Key, Security};
use plimsoll_service::{
    About, Answer, Call, Clock, Context, Ending, Endpoint, Http, Identifies, Limits, Listener, Problem,
    Routes, Running, Scope, Service, Span, State, Takes, document, reply,
};
use ring::digest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

mod slow_clients;

/// The address of a service.
type Address = SocketAddr;

const WRITE: Scope = Scope("notes:write");
const READ: Scope = Scope("notes:read");

/// The state of the service: it counts notes.
#[derive(Default)]
struct Notes {
    count: AtomicU32,
    closed: Arc<AtomicBool>,
}

impl State for Notes {
    const DEPENDENCY: &'static str = "the notebook";

    async fn ping(&self) -> Result<(), String> {
        Ok(())
    }

    fn write_metrics(&self, page: &mut Page) {
        page.single("notes_total", "counter", "Notes.", self.count.load(Ordering::Relaxed));
    }

    fn refusal(problem: &Problem) -> Response<Body> {
        let mut response = problem.response();
        response.headers_mut().insert("x-detail-bytes", problem.detail().len().into());
        response
    }

    /// A path means the same in upper and lower case.
    fn canonical_path(path: &str) -> Option<String> {
        Some(path.to_ascii_lowercase()).filter(|lower| lower != path)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// `PUT /notes/{id}` waits for the number of milliseconds in the note.
struct Put;

impl Endpoint<Notes> for Put {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/notes/{id}";
    const NAME: &'static str = "put_note";
    const SCOPE: Option<Scope> = Some(WRITE);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context<Notes>>, call: Call) -> Answer {
        let (id, note) = (call.name("id")?, call.json()?);
        let wait_ms =
            note["wait_ms"].as_u64().ok_or_else(|| Problem::field("wait_ms", "must be a number"))?;
        context.state.count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        Ok(reply::json(StatusCode::CREATED, &json!({"id": id})))
    }

    fn describe() -> Value {
        json!({"summary": "Put a note", "requestBody": body("Note"), "responses": responses(&[(201, "Done.", None)])})
    }
}

/// `GET /notes/{bytes}` answers that many bytes.
struct Get;

impl Endpoint<Notes> for Get {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/notes/{id}";
    const NAME: &'static str = "get_note";
    const SCOPE: Option<Scope> = Some(READ);
    const TAKES: Takes = Takes::Nothing;

    async fn answer(_: Arc<Context<Notes>>, call: Call) -> Answer {
        let bytes = call.name("id")?.parse().map_err(|_| Problem::field("id", "must be a number"))?;
        Ok(reply::text(StatusCode::OK, "text/plain", "x".repeat(bytes)))
    }

    fn describe() -> Value {
        json!({"summary": "Get a note", "responses": responses(&[(200, "The note.", None)])})
    }
}

/// `GET /who` answers with the caller that a header names.
struct Who;

impl Endpoint<Notes> for Who {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/who";
    const NAME: &'static str = "who";
    const SCOPE: Option<Scope> = None;
    const TAKES: Takes = Takes::Nothing;
    const IDENTIFIES: Identifies = Identifies::Endpoint;

    async fn answer(_: Arc<Context<Notes>>, call: Call) -> Answer {
        let name = call.headers.get("x-api-key").and_then(|name| name.to_str().ok()).unwrap_or_default();
        Ok(reply::text(StatusCode::OK, "text/plain", format!("{name} {}", call.query.unwrap_or_default())))
    }

    fn describe() -> Value {
        json!({"summary": "The caller", "responses": responses(&[(200, "The caller.", None)])})
    }
}

fn about() -> About {
    let (name, title, version) = ("notes", "Notes", "1.0.0");
    let schemas = json!({"Note": {"type": "object"}});
    let scopes = &[WRITE, READ];
    About { name, title, version, description: "", metrics_prefix: "notes", scopes, schemas }
}

fn routes() -> Routes<Notes> {
    Routes::new().with::<Put>().with::<Get>().with::<Who>()
}

fn key(name: &str, secret: &str, scope: Scope) -> Key {
    let hash = digest::digest(&digest::SHA256, secret.as_bytes());
    let sha256 = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Key { name: name.into(), sha256, scopes: vec![scope.name().into()] }
}

async fn start(limits: Limits) -> (Running<Notes>, Arc<AtomicBool>) {
    let security =
        Security { keys: vec![key("writer", "w-key", WRITE), key("reader", "r-key", READ)], jwt: None };
    let listen = "127.0.0.1:0".parse().unwrap();
    let http = Http::build(listen, limits, Some(&security), None, Path::new("."), about().scopes).unwrap();
    let state = Notes::default();
    let closed = state.closed.clone();
    let service = Service::new(about(), routes(), state, Clock::start());
    (Listener::bind(http.listen).await.unwrap().serve(service, http), closed)
}

/// Sends one request and returns the status, the head and the body.
async fn send(address: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn a_refused_request_gets_a_problem_body() {
    let (service, _) = start(Limits { body_bytes_max: 32, ..Limits::default() }).await;
    let long = format!("{{\"wait_ms\": {}}}", "0".repeat(64));
    for (method, path, key, body, status, part) in [
        ("PUT", "/notes/a", "w-key", "{\"wait_ms\": 0}", 201, "\"id\":\"a\""),
        ("PUT", "/notes/a", "nobody", "{}", 401, "unknown"),
        ("PUT", "/notes/a", "r-key", "{}", 403, "notes:write"),
        ("PUT", "/notes/$a", "w-key", "{\"wait_ms\": 0}", 422, "must not begin with `$`"),
        ("PUT", "/notes/a", "w-key", "{}", 422, "wait_ms: must be a number"),
        ("PUT", "/notes/a", "w-key", "{\"a\":1,\"a\":2}", 400, "duplicate key"),
        ("PUT", "/notes/a", "w-key", &long, 413, "32 bytes"),
        ("POST", "/notes/a", "w-key", "{}", 405, "methods"),
        ("GET", "/nowhere", "w-key", "", 404, "/openapi.json"),
    ] {
        let (found, head, answer) = send(service.address(), method, path, key, body).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        assert!(answer.contains(part), "{method} {path}: {answer}");
        let problem = status >= 400;
        assert_eq!(head.contains("content-type: application/problem+json"), problem, "{head}");
        assert_eq!(head.contains("x-detail-bytes"), problem, "the state makes the answer: {head}");
    }
    assert_eq!(service.stop().await, Ending::Drained);
}

#[tokio::test]
async fn a_caller_beyond_its_rate_is_told_when_to_retry() {
    let rate = Some(Rate { per_s: 0.1, burst: 1 });
    let (service, _) = start(Limits { rate, ..Limits::default() }).await;
    let put = |key| send(service.address(), "PUT", "/notes/a", key, "{\"wait_ms\": 0}");
    assert_eq!(put("w-key").await.0, 201);
    let (status, head, _) = put("w-key").await;
    assert_eq!(status, 429);
    assert!(head.contains("retry-after: "), "{head}");
    assert_eq!(put("r-key").await.0, 403, "another caller has its own limit");
    assert_eq!(send(service.address(), "GET", "/healthz", "", "").await.0, 200, "health has no limit");
}

#[tokio::test]
async fn an_endpoint_that_identifies_callers_is_limited_by_address() {
    let rate = Some(Rate { per_s: 0.1, burst: 1 });
    let (service, _) = start(Limits { rate, ..Limits::default() }).await;
    let (status, _, body) = send(service.address(), "GET", "/who", "ann", "").await;
    assert_eq!((status, body.as_str()), (200, "ann "));
    assert_eq!(send(service.address(), "GET", "/who", "bob", "").await.0, 429, "a name is no proof");
}

#[tokio::test]
async fn a_path_is_routed_in_its_canonical_form_with_its_query() {
    let (service, _) = start(Limits::default()).await;
    let (status, _, body) = send(service.address(), "GET", "/WHO?A=b", "ann", "").await;
    assert_eq!((status, body.as_str()), (200, "ann A=b"));
}

#[tokio::test]
async fn the_metrics_page_has_the_prefix_and_the_metrics_of_the_state() {
    let (service, _) = start(Limits::default()).await;
    send(service.address(), "PUT", "/notes/a", "w-key", "{\"wait_ms\": 0}").await;
    let (_, _, page) = send(service.address(), "GET", "/metrics", "", "").await;
    for line in [
        "notes_http_requests_total{endpoint=\"put_note\",status=\"201\"} 1\n",
        "notes_http_request_duration_seconds_count{endpoint=\"put_note\"} 1\n",
        "notes_http_requests_in_flight 0\n",
        "notes_total 1\n",
    ] {
        assert!(page.contains(line), "{line} is missing in {page}");
    }
}

#[tokio::test]
async fn the_description_lists_every_endpoint_and_refusal() {
    let (service, _) = start(Limits::default()).await;
    let (_, _, text) = send(service.address(), "GET", "/openapi.json", "", "").await;
    let described: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(described, document(&about(), routes()));
    let paths: Vec<_> = described["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/notes/{id}", "/who", "/healthz", "/readyz", "/metrics", "/openapi.json"]);
    let who = &described["paths"]["/who"]["get"];
    assert!(who["responses"]["429"].is_object() && who["security"].is_null(), "{who}");
    let put = &described["paths"]["/notes/{id}"]["put"];
    assert!(
        ["201", "400", "401", "403", "413", "429"].iter().all(|it| put["responses"][it].is_object()),
        "{put}"
    );
    assert_eq!(put["security"][0]["bearer"][0], "notes:write");
    assert!(described["components"]["schemas"]["Problem"].is_object());
}

#[tokio::test]
async fn a_stop_finishes_requests_in_flight_and_closes_the_state() {
    let (service, closed) = start(Limits::default()).await;
    let (address, context) = (service.address(), service.context().clone());
    assert_eq!(send(address, "GET", "/readyz", "", "").await.0, 200);
    let slow = tokio::spawn(send(address, "PUT", "/notes/a", "w-key", "{\"wait_ms\": 300}"));
    while context.state.count.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(service.stop().await, Ending::Drained);
    assert_eq!(slow.await.unwrap().0, 201);
    assert!(closed.load(Ordering::Relaxed));
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn a_stop_cuts_off_requests_that_take_too_long() {
    let (service, closed) = start(Limits { drain: Span::millis(50), ..Limits::default() }).await;
    let (address, context) = (service.address(), service.context().clone());
    let body = "{\"wait_ms\": 60000}";
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "PUT /notes/a HTTP/1.1\r\nhost: t\r\nx-api-key: w-key\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    while context.state.count.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(service.stop().await, Ending::Cut { connections: 1 });
    assert!(closed.load(Ordering::Relaxed));
}
