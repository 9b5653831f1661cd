//! Accepts connections up to a limit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::Phase;
use super::connection::Connection;
use crate::context::{Context, State};

/// The pause after a failed accept, as when no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections.
pub(super) struct Acceptor {
    connection: Connection,
    permits: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Acceptor {
    pub(super) fn new<S: State>(
        router: Router,
        context: &Context<S>,
        tls: Option<Arc<ServerConfig>>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let connection = Connection {
            router,
            canonical_path: S::canonical_path,
            limits: Arc::new(context.limits.clone()),
            tls: tls.map(TlsAcceptor::from),
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
