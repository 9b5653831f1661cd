//! Holds the state of the endpoints.

use std::sync::Arc;

use mongodb::Database;
use mongodb::bson::doc;
use plimsoll_service::metrics::Page;

use super::commit_metrics;
use super::pool_metrics::PoolMetrics;
use super::queries::Queries;
use crate::feeds::Feeds;
use crate::reading;
use crate::readings::Readings;
use crate::settings::limits::RequestLimits;

/// The context of a request to this service.
pub type Context = plimsoll_service::Context<State>;

/// The state of the endpoints.
pub struct State {
    /// The database through the connections of writes, for readiness: the service is ready as long as it can store.
    pub database: Database,
    /// The database through the connections of queries.
    pub read_database: Database,
    /// The running queries.
    pub queries: Queries,
    /// The metrics of the driver's connection pools.
    pub pool: Arc<PoolMetrics>,
    /// The readings.
    pub readings: Readings,
    /// The feeds, for writes.
    pub feeds: Feeds,
    /// The same feeds through the connections of queries.
    pub read_feeds: Feeds,
    /// The limits of an accepted reading.
    pub accepted: reading::Limits,
    /// The limits of a single request.
    pub limits: RequestLimits,
}

impl plimsoll_service::State for State {
    const DEPENDENCY: &'static str = "the database";

    async fn ping(&self) -> Result<(), String> {
        let answer = self.database.run_command(doc! {"ping": 1}).await;
        answer.map(drop).map_err(|error| error.to_string())
    }

    fn write_metrics(&self, page: &mut Page) {
        commit_metrics::write(&self.readings.counters(), page);
        self.pool.write(page);
        self.queries.write(page);
    }

    async fn close(&self) {
        self.readings.close().await;
    }
}
