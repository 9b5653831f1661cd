//! Runs a service: listens, serves connections, and stops without losing accepted requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::context::{Context, Parts, State};
use crate::metrics::EndpointMetrics;
use crate::middleware;
use crate::openapi::{self, About};
use crate::routes::Routes;
use crate::settings::Http;
use crate::span::Span;
use crate::standard;

mod accept;
mod connection;
mod streams;
mod timeout_stream;

use accept::Acceptor;

/// A service: its description, its endpoints and its state.
pub struct Service<S> {
    about: About,
    routes: Routes<S>,
    state: S,
    clock: Clock,
}

impl<S: State> Service<S> {
    /// A service of these endpoints and the standard ones: `/healthz`, `/readyz`, `/metrics`, `/openapi.json`.
    pub fn new(about: About, routes: Routes<S>, state: S, clock: Clock) -> Self {
        Self { about, routes: standard::add(routes), state, clock }
    }
}

/// The OpenAPI description of a service with these endpoints and the standard ones.
pub fn document<S: State>(about: &About, routes: Routes<S>) -> serde_json::Value {
    openapi::document(about, &standard::add(routes))
}

/// The service cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} ({source}): is another program using it? Choose another port with --listen"
)]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: io::Error,
}

/// A bound address. Clients may connect already; they are served after [`Listener::serve`].
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// The stages of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Accepts connections and answers requests.
    Serving,
    /// Accepts no more connections and finishes requests in flight.
    Draining,
    /// Cuts off the remaining connections.
    Cut,
}

/// A running service.
pub struct Running<S> {
    address: SocketAddr,
    tls: bool,
    context: Arc<Context<S>>,
    phase: watch::Sender<Phase>,
    accepting: JoinHandle<()>,
    drain: Span,
    connections_max: u32,
}

/// The end of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All accepted requests were answered.
    Drained,
    /// Some connections did not finish in time and were cut off. Acknowledged data is stored.
    Cut {
        /// The number of connections.
        connections: usize,
    },
}

impl Listener {
    /// Binds the address; port 0 takes any free one.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn bind(listen: SocketAddr) -> Result<Self, ListenError> {
        let fault = |source| ListenError { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, address })
    }

    /// Serves connections from now on.
    pub fn serve<S: State>(self, service: Service<S>, http: Http) -> Running<S> {
        let Service { about, routes, state, clock } = service;
        let (address, name) = (self.address, about.name);
        if http.authenticator.is_none() && routes.iter().any(|route| route.scope.is_some()) {
            tracing::warn!(name, %address, "no security: everyone on this machine may write and read everything");
        }
        let (drain, connections_max, tls, cors) =
            (http.limits.drain, http.limits.connections_max, http.tls, http.cors);
        let context = Arc::new(Context::new(Parts {
            state,
            clock,
            limits: http.limits,
            authenticator: http.authenticator,
            metrics_prefix: about.metrics_prefix,
            metrics: routes.iter().map(|route| Arc::new(EndpointMetrics::new(route.name))).collect(),
            openapi: Bytes::from(openapi::document(&about, &routes).to_string()),
        }));
        let (phase, watched) = watch::channel(Phase::Serving);
        let router = middleware::router(context.clone(), &routes, cors);
        let is_tls = tls.is_some();
        let acceptor = Acceptor::new(router, &context, tls, watched);
        let accepting = tokio::spawn(acceptor.run(self.listener));
        tracing::info!(name, %address, tls = is_tls, "listening");
        Running { address, tls: is_tls, context, phase, accepting, drain, connections_max }
    }
}

impl<S: State> Running<S> {
    /// The address that the service listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The context of all requests.
    pub fn context(&self) -> &Arc<Context<S>> {
        &self.context
    }

    /// Waits for a failure that ends the service, makes `/readyz` refuse, and returns the reason.
    pub async fn failure(&self) -> String {
        let reason = self.context.state.failure().await;
        self.context.begin_stop();
        tracing::error!(reason, "the service ends");
        reason
    }

    /// Stops the service: accepts nothing more, finishes accepted requests within `limits.drain`, and closes the state.
    pub async fn stop(self) -> Ending {
        self.context.begin_stop();
        self.phase.send_replace(Phase::Draining);
        tracing::info!("stopping: finishing accepted requests");
        let all = self.context.connections.acquire_many(self.connections_max);
        let ending = match tokio::time::timeout(self.drain.duration(), all).await {
            Ok(_) => Ending::Drained,
            Err(_) => {
                let free = self.context.connections.available_permits();
                let connections = (self.connections_max as usize).saturating_sub(free);
                tracing::warn!(connections, "cut off connections that did not finish in time");
                Ending::Cut { connections }
            }
        };
        self.phase.send_replace(Phase::Cut);
        // The task has ended, or waits for a connection that will not come.
        self.accepting.abort();
        self.context.state.close().await;
        tracing::info!("stopped");
        ending
    }
}
