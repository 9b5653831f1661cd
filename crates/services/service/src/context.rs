//! Shares state, limits, clock and counters among all requests of a service.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::Response;
use tokio::sync::{Semaphore, watch};

use crate::arrivals::Arrivals;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::limits::Limits;
use crate::metrics::{EndpointMetrics, Page};
use crate::problem::Problem;
use crate::rate_limit::RateLimiter;
use crate::readiness::Readiness;
use crate::security::Authenticator;

/// The part of a service that its own endpoints use: a database, queues, settings.
pub trait State: Send + Sync + 'static {
    /// The dependency's name in messages: `the database`.
    const DEPENDENCY: &'static str;

    /// Pings the dependency. The caller limits the time and the rate of calls.
    ///
    /// # Errors
    /// The reason, for the log.
    fn ping(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// Writes the metrics of the state, after those of the endpoints.
    fn write_metrics(&self, page: &mut Page);

    /// The answer to a request that the middleware or an endpoint refuses.
    fn refusal(problem: &Problem) -> Response<Body> {
        problem.response()
    }

    /// The path to route instead of this one, both percent-encoded; `None` to route it as it is.
    fn canonical_path(_path: &str) -> Option<String> {
        None
    }

    /// Waits for a failure that ends the service, such as the death of a worker. Without such a failure it waits for ever.
    fn failure(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Finishes background work. The service calls it once, after the last request.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// The shared state of all requests of a service.
pub struct Context<S> {
    /// The service's own part.
    pub state: S,
    /// The limits.
    pub limits: Limits,
    /// The clock.
    pub clock: Clock,
    /// Memory for answers.
    pub answers: Budget,
    pub(crate) metrics_prefix: &'static str,
    pub(crate) metrics: Vec<Arc<EndpointMetrics>>,
    pub(crate) openapi: Bytes,
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) rates: Option<RateLimiter>,
    pub(crate) bodies: Budget,
    /// Memory for streams, which may stay open for long, apart from that of other bodies.
    pub(crate) streams: Budget,
    /// Places for bodies that arrive.
    pub(crate) arrivals: Arrivals,
    /// Places for requests that are answered.
    pub(crate) requests: Semaphore,
    /// Places for open streams, which take as long as their clients send.
    pub(crate) open_streams: Semaphore,
    pub(crate) connections: Arc<Semaphore>,
    readiness: Readiness,
    stopping: watch::Sender<bool>,
}

/// The parts of a context that the service chooses.
pub(crate) struct Parts<S> {
    pub(crate) state: S,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) metrics_prefix: &'static str,
    pub(crate) metrics: Vec<Arc<EndpointMetrics>>,
    pub(crate) openapi: Bytes,
}

impl<S: State> Context<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        let limits = parts.limits;
        Self {
            state: parts.state,
            clock: parts.clock,
            answers: Budget::divided(limits.answers_bytes_max),
            metrics_prefix: parts.metrics_prefix,
            metrics: parts.metrics,
            openapi: parts.openapi,
            authenticator: parts.authenticator,
            rates: limits.rate.map(RateLimiter::new),
            bodies: Budget::new(limits.bodies_bytes_max),
            streams: Budget::new(limits.bodies_bytes_max),
            arrivals: Arrivals::new(limits.requests_max as usize, limits.body.duration()),
            requests: Semaphore::new(limits.requests_max as usize),
            open_streams: Semaphore::new(limits.requests_max as usize),
            connections: Arc::new(Semaphore::new(limits.connections_max as usize)),
            readiness: Readiness::default(),
            stopping: watch::Sender::new(false),
            limits,
        }
    }

    /// Whether the service has begun to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the service begins to stop: requests that wait for news should be answered then.
    pub async fn stopping(&self) {
        if self.stopping.subscribe().wait_for(|is_stopping| *is_stopping).await.is_err() {
            std::future::pending().await
        }
    }

    /// Makes `/readyz` refuse from now on.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// The reason why the dependency does not answer, or `None`.
    pub(crate) async fn unready(&self) -> Option<String> {
        self.readiness.fault(S::DEPENDENCY, self.clock.now_ns(), self.state.ping()).await
    }
}
