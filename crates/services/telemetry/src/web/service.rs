//! What all requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use mongodb::Database;
use tokio::sync::Semaphore;

use super::metrics::{Meter, Pool};
use super::rate::Rates;
use super::ready::Ready;
use super::security::Guard;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::feeds::Feeds;
use crate::reading;
use crate::readings::Readings;
use crate::settings::limits::Limits;

/// What all requests share.
pub struct Service {
    /// The readings.
    pub readings: Readings,
    /// The feeds.
    pub feeds: Feeds,
    /// Which readings are taken.
    pub taken: reading::Limits,
    /// How much of everything is taken.
    pub limits: Limits,
    /// The service's clock.
    pub clock: Clock,
    /// Memory for answers.
    pub answers: Budget,
    pub(super) guard: Option<Guard>,
    pub(super) rates: Option<Rates>,
    pub(super) budget: Budget,
    pub(super) requests: Semaphore,
    pub(super) pool: Arc<Pool>,
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) ready: Ready,
    pub(super) openapi: OnceLock<Bytes>,
    connections: Arc<Semaphore>,
    ending: AtomicBool,
}

/// What a service is made of.
pub struct Parts {
    /// The database.
    pub database: Database,
    /// What the driver's pool tells.
    pub pool: Arc<Pool>,
    /// The readings.
    pub readings: Readings,
    /// The feeds.
    pub feeds: Feeds,
    /// Which readings are taken.
    pub taken: reading::Limits,
    /// How much of everything is taken.
    pub limits: Limits,
    /// Who may do what; everyone everything if absent.
    pub guard: Option<Guard>,
    /// The service's clock.
    pub clock: Clock,
}

impl Service {
    /// A service of these parts.
    pub fn new(parts: Parts) -> Self {
        let limits = parts.limits;
        Self {
            readings: parts.readings,
            feeds: parts.feeds,
            taken: parts.taken,
            clock: parts.clock,
            guard: parts.guard,
            rates: limits.rate.map(Rates::new),
            budget: Budget::new(limits.bodies_bytes_max),
            answers: Budget::new(limits.answers_bytes_max),
            requests: Semaphore::new(limits.requests_max as usize),
            pool: parts.pool,
            meters: super::routes::meters(),
            ready: Ready::new(parts.database),
            openapi: OnceLock::new(),
            connections: Arc::new(Semaphore::new(limits.connections_max as usize)),
            ending: AtomicBool::new(false),
            limits,
        }
    }

    /// A permit for each connection there may be.
    pub fn connections(&self) -> &Arc<Semaphore> {
        &self.connections
    }

    /// Whether it has been asked to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// From now on it is not ready for new requests.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }
}
