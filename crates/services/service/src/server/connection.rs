//! Serves one connection: TLS handshake, HTTP, shutdown.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Phase;
use super::timeout_stream::TimeoutStream;
use crate::middleware::Peer;

/// The parts that all connections share.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) http: Arc<Builder<TokioExecutor>>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) idle: Duration,
    pub(super) stall: Duration,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Connection {
    /// Serves a connection. Errors are only logged: they are the client's.
    pub(super) async fn serve(self, stream: TcpStream, peer: IpAddr) {
        let stream = TimeoutStream::new(stream, self.idle, self.stall);
        let Some(tls) = self.tls.clone() else { return self.drive(stream, peer).await };
        match tokio::time::timeout(self.stall, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.drive(stream, peer).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "the TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "the TLS handshake timed out"),
        }
    }

    async fn drive(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: IpAddr) {
        let app = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            app.call(request)
        });
        let mut served = pin!(self.http.serve_connection(TokioIo::new(stream), service));
        loop {
            tokio::select! {
                result = served.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%peer, error, "the connection failed");
                    }
                    return;
                }
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
