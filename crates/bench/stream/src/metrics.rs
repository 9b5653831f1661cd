//! Serves `/metrics` and `/healthz` of a running pipeline.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;

/// The metrics page: the driver updates it once a second.
#[derive(Clone, Default)]
pub struct MetricsPage(Arc<Mutex<String>>);

impl MetricsPage {
    /// Replaces the page.
    pub fn put(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the page as long as the runtime lives; returns the address with the port that the system chose.
///
/// # Errors
/// The address is not available.
pub async fn serve(address: SocketAddr, page: MetricsPage) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener
        .with_context(|| format!("listen on {address}; is the port taken? Name another with --listen"))?;
    let bound = listener.local_addr().context("read the address")?;
    let app = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(page);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(bound)
}

async fn metrics(State(page): State<MetricsPage>) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.text())
}
