//! Serves one connection: TLS handshake, HTTP, shutdown.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::http::{Request, Uri};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Phase;
use super::streams::Streams;
use super::timeout_stream::TimeoutStream;
use crate::budget::Share;
use crate::limits::Limits;
use crate::middleware::Peer;
use crate::sending::{self, Outbox};

/// The parts that all connections share.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) canonical_path: fn(&str) -> Option<String>,
    pub(super) limits: Arc<Limits>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Connection {
    /// Serves a connection. Errors are only logged: they are the client's.
    pub(super) async fn serve(self, stream: TcpStream, peer: IpAddr) {
        let (idle, stall) = (self.limits.idle.duration(), self.limits.stall.duration());
        let stream = TimeoutStream::new(stream, idle, stall);
        let Some(tls) = self.tls.clone() else { return self.drive(stream, peer).await };
        match tokio::time::timeout(stall, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.drive(stream, peer).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "the TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "the TLS handshake timed out"),
        }
    }

    async fn drive(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: IpAddr) {
        let (app, canonical_path) = (TowerToHyperService::new(self.router), self.canonical_path);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            if let Some(uri) = rewritten(request.uri(), canonical_path) {
                *request.uri_mut() = uri;
            }
            let answer = app.call(request);
            async move { answer.await.map(sending::outgoing) }
        });
        let share = Share::default();
        let (outbox, streams) = (Outbox::of(share.clone()), Streams::new(self.limits.send.duration(), share));
        let http = http(&self.limits, streams.clone());
        let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
        let mut overdue = pin!(outbox.overdue(self.limits.send.duration()));
        loop {
            tokio::select! {
                result = poll_fn(|context| outbox.within(|| served.as_mut().poll(context))) => {
                    if let Err(error) = result {
                        tracing::debug!(%peer, error, "the connection failed");
                    }
                    return;
                }
                () = overdue.as_mut() => return tracing::debug!(%peer, "the client did not take its answer in time"),
                () = streams.stuck() => return tracing::debug!(%peer, "the client did not take the end of an answer in time"),
                changed = self.phase.changed() => {
                    if changed.is_err() || *self.phase.borrow() == Phase::Cut {
                        return;
                    }
                    served.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// The URI with its path in canonical form. `None` if the path is canonical already.
fn rewritten(uri: &Uri, canonical_path: fn(&str) -> Option<String>) -> Option<Uri> {
    let path = canonical_path(uri.path())?;
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(parts).ok()
}

fn http(limits: &Limits, streams: Streams) -> Builder<Streams> {
    let mut http = Builder::new(streams);
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle.duration())
        .max_buf_size(limits.head_bytes_max as usize);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.head_bytes_max)
        .max_concurrent_streams(limits.streams_max)
        .keep_alive_interval(Some(limits.idle.duration()))
        .keep_alive_timeout(limits.stall.duration());
    http
}
