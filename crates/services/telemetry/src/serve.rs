//! Starts the service: listens, opens the database, and serves. Fills its database with earlier data.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::doc;
use mongodb::error::{ErrorKind, WriteFailure};
use plimsoll_service::{Clock, Listener, Product, StartError};

use crate::api;
use crate::api::pool_metrics::PoolMetrics;
use crate::api::queries::Queries;
use crate::api::state::State;
use crate::feeds::{self, Feeds};
use crate::readings::{self, Readings};
use crate::settings::{self, Settings, Typed};
use crate::workload::{Fill, Progress, fill};

pub use plimsoll_service::Ending;

/// The number of readings between two messages about a fill.
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

    fn database_uri(typed: &mut Typed) -> Option<&mut Option<String>> {
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

/// The error for a storage that cannot be opened.
fn storage(error: impl Display) -> StartError {
    StartError::Storage(error.to_string())
}

fn database(error: mongodb::error::Error) -> StartError {
    let reason = reason(&error);
    storage(format!("the database cannot be used ({reason}): check --server, and that the server runs"))
}

/// The driver's message without its labels and its description of the topology.
fn reason(error: &mongodb::error::Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no server answers".into(),
        ErrorKind::Io(error) => error.to_string(),
        ErrorKind::Command(refused) => refused.message.clone(),
        ErrorKind::Authentication { message, .. }
        | ErrorKind::InvalidArgument { message, .. }
        | ErrorKind::DnsResolve { message, .. } => message.clone(),
        // For the errors below, the driver's text would repeat the bytes of the server's answer.
        ErrorKind::Write(WriteFailure::WriteConcernError(refused)) => refused.message.clone(),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.message.clone(),
        other => said(error).unwrap_or_else(|| other.to_string()),
    }
}

/// The message of the server's answer.
fn said(error: &mongodb::error::Error) -> Option<String> {
    error.server_response()?.get_str("errmsg").ok().map(str::to_owned)
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
    let client = |options| Client::with_options(options).map_err(database);
    let open = |options| client(options).map(|client| client.database(&settings.database.name));
    let (writes, reads) = (open(settings.database.for_writes(&options))?, open(options)?);
    writes.run_command(doc! {"ping": 1}).await.map_err(database)?;
    let unreadable = |error| match error {
        readings::Error::Database(error) => database(error),
        error => storage(format!("readings: {error}")),
    };
    let unopened = |error| match error {
        feeds::Error::Database(error) => database(error),
        error => storage(error),
    };
    let readings = Readings::open(&writes, settings.readings).await.map_err(unreadable)?;
    let readings = readings.reading_through(&reads).await.map_err(unreadable)?;
    let feeds = Feeds::open(&writes, settings.feeds, clock).await.map_err(unopened)?;
    let read_feeds = Feeds::open(&reads, settings.feeds, clock).await.map_err(unopened)?;
    let state = State {
        database: writes,
        read_database: reads,
        queries: Queries::new(settings.limits.queries_max, settings.limits.query_wait.duration()),
        read_feeds,
        pool,
        readings,
        feeds,
        accepted: settings.accepted,
        limits: settings.limits,
    };
    Ok(listener.serve(api::service(state, clock), settings.http))
}
