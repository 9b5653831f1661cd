//! Implements the service: one endpoint, its settings, and its start.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Method, StatusCode};
use plimsoll_service::metrics::Page;
use plimsoll_service::openapi::{body, responses};
use plimsoll_service::settings::Error;
use plimsoll_service::{
    About, Answer, Call, Clock, Context, Endpoint, Http, Limits, Listener, Product, Routes, Running, Scope,
    Service, StartError, State, Takes, reply,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ECHO: Scope = Scope("echo");

/// The service as a program.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

/// The settings as in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The address to listen on.
    listen: SocketAddr,
    /// The key of the answer that holds the body.
    key: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8081)), key: "echo".to_owned() }
    }
}

impl Product for Echo {
    const NAME: &'static str = "echo";
    type Typed = Settings;
    type Settings = (Http, Echoes);
    type State = Echoes;

    fn listen(typed: &mut Settings) -> &mut SocketAddr {
        &mut typed.listen
    }

    fn build(typed: Settings, base: &Path) -> Result<(Http, Echoes), Error> {
        if typed.key.is_empty() {
            return Err(Error::Section { section: "key", why: "it is empty: name it".to_owned() });
        }
        let http = Http::build(typed.listen, Limits::default(), None, None, base, &[ECHO])?;
        Ok((http, Echoes { key: typed.key, count: AtomicU64::new(0) }))
    }

    async fn start((http, state): (Http, Echoes)) -> Result<Running<Echoes>, StartError> {
        let about = About {
            name: Self::NAME,
            title: "Echo",
            version: "1",
            description: "Answers each request with its own body.",
            metrics_prefix: Self::NAME,
            scopes: &[ECHO],
            schemas: json!({"Body": {}}),
        };
        let service = Service::new(about, Routes::new().with::<Post>(), state, Clock::start());
        Ok(Listener::bind(http.listen).await?.serve(service, http))
    }
}

/// The state: the key of the answers, and their count.
#[derive(Debug)]
pub struct Echoes {
    key: String,
    count: AtomicU64,
}

impl State for Echoes {
    const DEPENDENCY: &'static str = "nothing";

    async fn ping(&self) -> Result<(), String> {
        Ok(())
    }

    fn write_metrics(&self, page: &mut Page) {
        page.single("echoes_total", "counter", "Answers.", self.count.load(Ordering::Relaxed));
    }

    /// Fails if a test sets the key `failing`; never ends otherwise.
    async fn failure(&self) -> String {
        if self.key == "failing" { "it fails as asked".to_owned() } else { std::future::pending().await }
    }

    async fn close(&self) {}
}

/// `POST /echo`.
struct Post;

impl Endpoint<Echoes> for Post {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/echo";
    const NAME: &'static str = "echo";
    const SCOPE: Option<Scope> = Some(ECHO);
    const TAKES: Takes = Takes::Json;

    async fn answer(context: Arc<Context<Echoes>>, call: Call) -> Answer {
        let body = call.json()?;
        context.state.count.fetch_add(1, Ordering::Relaxed);
        Ok(reply::json(StatusCode::OK, &json!({&context.state.key: body})))
    }

    fn describe() -> Value {
        json!({"summary": "Echo", "requestBody": body("Body"), "responses": responses(&[(200, "The body.", None)])})
    }
}
