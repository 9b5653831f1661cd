//! Accepts connections up to a limit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::Phase;
use super::connection::Connection;
use crate::context::Context;
use crate::limits::Limits;

/// The pause after a failed accept, as when no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);
/// Concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;

/// Accepts connections.
pub(super) struct Acceptor {
    connection: Connection,
    permits: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Acceptor {
    pub(super) fn new<S>(
        router: Router,
        context: &Context<S>,
        tls: Option<Arc<ServerConfig>>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let limits = &context.limits;
        let connection = Connection {
            router,
            http: Arc::new(http(limits)),
            tls: tls.map(TlsAcceptor::from),
            idle: limits.idle.duration(),
            stall: limits.stall.duration(),
            phase: phase.clone(),
        };
        Self { connection, permits: context.connections.clone(), phase }
    }

    /// Runs until the service stops.
    pub(super) async fn run(mut self, listener: TcpListener) {
        let mut stopping = self.phase.clone();
        tokio::select! {
            // Dropping the `accept` future loses no accepted connection.
            _ = stopping.wait_for(|phase| *phase != Phase::Serving) => (),
            () = self.accept(&listener) => (),
        }
    }

    async fn accept(&mut self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Further connections wait in the kernel's queue. The semaphore is never closed.
                    let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
                    self.serve(stream, peer.ip(), permit);
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: std::net::IpAddr, permit: OwnedSemaphorePermit) {
        // Without this option, an answer may wait for the acknowledgement of the previous answer.
        stream.set_nodelay(true).unwrap_or_default();
        let connection = self.connection.clone();
        tokio::spawn(async move {
            connection.serve(stream, peer).await;
            drop(permit);
        });
    }
}

fn http(limits: &Limits) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle.duration())
        .max_buf_size(limits.head_bytes_max as usize);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.head_bytes_max)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(Some(limits.idle.duration()))
        .keep_alive_timeout(limits.stall.duration());
    http
}
