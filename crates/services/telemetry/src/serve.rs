//! Starts the service: listens, opens the database, and serves. Fills its database with earlier data.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::doc;
use plimsoll_service::{Clock, Listener, Product, StartError};

use crate::api;
use crate::api::pool_metrics::PoolMetrics;
use crate::api::state::State;
use crate::feeds::Feeds;
use crate::readings::Readings;
use crate::settings::{self, Settings, Typed};
use crate::workload::{Fill, Progress, fill};

pub use plimsoll_service::Ending;

/// The readings between two messages about a fill.
const TELL_EVERY: u64 = 500_000;

/// The running service.
pub type Running = plimsoll_service::Running<State>;

/// The telemetry service as a program.
#[derive(Clone, Copy, Debug)]
pub struct Telemetry;

impl Product for Telemetry {
    const NAME: &'static str = "telemetry";
    type Typed = Typed;
    type Settings = Settings;
    type State = State;

    fn listen(typed: &mut Typed) -> &mut SocketAddr {
        &mut typed.listen
    }

    fn database_uri(typed: &mut Typed) -> Option<&mut String> {
        Some(&mut typed.database.uri)
    }

    fn build(typed: Typed, base: &Path) -> Result<Settings, settings::Error> {
        typed.build(base)
    }

    async fn start(settings: Settings) -> Result<Running, StartError> {
        start(settings).await
    }

    async fn fill(
        settings: Settings,
        order: &str,
        tell: &mut (dyn FnMut(String) + Send),
    ) -> Result<(), String> {
        let order: Fill = serde_json::from_str(order).map_err(|error| format!("--fill: {error}"))?;
        let mut next = TELL_EVERY;
        let progress = |progress: Progress| {
            if progress.done >= next {
                next = progress.done + TELL_EVERY;
                tell(format!("filling in: {} of {} readings", progress.done, progress.total));
            }
        };
        fill(&settings, &order, progress).await.map_err(|error| error.to_string())
    }
}

/// The storage cannot be opened.
fn storage(error: impl Display) -> StartError {
    StartError::Storage(error.to_string())
}

fn database(error: mongodb::error::Error) -> StartError {
    storage(format!("the database cannot be used ({error}): check --server, and that the server runs"))
}

/// Opens the database, creates missing collections and indexes, and serves.
///
/// # Errors
/// [`StartError`].
pub async fn start(settings: Settings) -> Result<Running, StartError> {
    let listener = Listener::bind(settings.http.listen).await?;
    let clock = Clock::start();
    let pool = Arc::new(PoolMetrics::default());
    let events = pool.clone();
    let options = settings.database.options(move |event| events.record(&event)).await.map_err(database)?;
    let store = Client::with_options(options).map_err(database)?.database(&settings.database.name);
    store.run_command(doc! {"ping": 1}).await.map_err(database)?;
    let readings = Readings::open(&store, settings.readings).await;
    let readings = readings.map_err(|error| storage(format!("readings: {error}")))?;
    let feeds = Feeds::open(&store, settings.feeds, clock).await.map_err(storage)?;
    let state = State {
        database: store,
        pool,
        readings,
        feeds,
        accepted: settings.accepted,
        limits: settings.limits,
    };
    Ok(listener.serve(api::service(state, clock), settings.http))
}
