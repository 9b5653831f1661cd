//! Serves `/metrics` and `/healthz` of a running pipeline.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;

/// What is told when Prometheus asks: the driver writes it once a second.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<String>>);

impl Board {
    /// Puts up what is told from now on.
    pub fn put(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers on an address as long as the runtime lives; gives the address, whose port may have been left to the system.
///
/// # Errors
/// When nobody may listen there.
pub async fn serve(address: SocketAddr, board: Board) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener
        .with_context(|| format!("listen on {address}; is the port taken? Name another with --listen"))?;
    let bound = listener.local_addr().context("read the address")?;
    let app = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(board);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(bound)
}

async fn metrics(State(board): State<Board>) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], board.text())
}
