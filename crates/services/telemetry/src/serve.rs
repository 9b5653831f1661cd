//! Starts the service: listens, opens the database, and serves.

use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::doc;
use plimsoll_service::{Clock, ListenError, Listener};

use crate::api;
use crate::api::pool_metrics::PoolMetrics;
use crate::api::state::State;
use crate::feeds::{self, Feeds};
use crate::readings::{self, Readings};
use crate::settings::Settings;

pub use plimsoll_service::Ending;

/// The running service.
pub type Running = plimsoll_service::Running<State>;

/// The service did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The database does not answer.
    #[error("the database cannot be used ({0}): check --server, and that the server runs")]
    Database(#[from] mongodb::error::Error),
    /// The readings cannot be opened.
    #[error("readings: {0}")]
    Readings(#[from] readings::Error),
    /// The feeds cannot be opened.
    #[error(transparent)]
    Feeds(#[from] feeds::Error),
}

/// Opens the database, creates missing collections and indexes, and serves.
///
/// # Errors
/// [`Error`].
pub async fn start(settings: Settings) -> Result<Running, Error> {
    let listener = Listener::bind(settings.http.listen).await?;
    let clock = Clock::start();
    let pool = Arc::new(PoolMetrics::default());
    let events = pool.clone();
    let options = settings.database.options(move |event| events.record(&event)).await?;
    let database = Client::with_options(options)?.database(&settings.database.name);
    database.run_command(doc! {"ping": 1}).await?;
    let readings = Readings::open(&database, settings.readings).await?;
    let feeds = Feeds::open(&database, settings.feeds, clock).await?;
    let state =
        State { database, pool, readings, feeds, accepted: settings.accepted, limits: settings.limits };
    Ok(listener.serve(api::service(state, clock), settings.http))
}
