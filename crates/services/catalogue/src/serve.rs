//! Starts the service: listens, opens the database, and serves.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bson::{DateTime, doc};
use mongodb::Client;
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;
use mongodb::options::{Acknowledgment, WriteConcern};
use plimsoll_service::security::Sessions;
use plimsoll_service::{Clock, Listener, Product, StartError};

use crate::access::Rules;
use crate::api;
use crate::api::state::State;
use crate::fill::{self, Fill};
use crate::guesses::Guesses;
use crate::settings::{self, Settings, Typed};
use crate::storage::{self, Store};

/// The pause of the upkeep after it has caught up.
const UPKEEP_EVERY: Duration = Duration::from_secs(10);
/// The connections to each server, unless the URI states their number.
const CONNECTIONS_MAX: u32 = 64;
/// The time to find a server.
const SELECT_MAX: Duration = Duration::from_secs(5);

/// The running service.
pub type Running = plimsoll_service::Running<State>;

/// The catalogue as a program.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue;

impl Product for Catalogue {
    const NAME: &'static str = "catalogue";
    type Typed = Typed;
    type Settings = Settings;
    type State = State;

    fn listen(typed: &mut Typed) -> &mut SocketAddr {
        &mut typed.listen
    }

    fn database_uri(typed: &mut Typed) -> Option<&mut Option<String>> {
        Some(&mut typed.database.uri)
    }

    fn build(typed: Typed, base: &Path) -> Result<Settings, plimsoll_service::settings::Error> {
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
        let database = open(&settings.database).await.map_err(|error| error.to_string())?;
        fill::fill(&database, &order, tell).await.map_err(|error| error.to_string())
    }
}

fn unusable(reason: impl Display) -> StartError {
    StartError::Storage(format!(
        "the database cannot be used ({reason}): check --server, and that the server runs"
    ))
}

fn storage(error: storage::Error) -> StartError {
    match error {
        storage::Error::Database(error) => unusable(reason(&error)),
        other => unusable(other),
    }
}

/// The driver's message without its labels, and without the bytes of the server's answer.
fn reason(error: &mongodb::error::Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no server answers".into(),
        ErrorKind::Command(refused) => refused.message.clone(),
        ErrorKind::Authentication { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Opens the database, creates missing indexes, and serves.
///
/// # Errors
/// [`StartError`].
pub async fn start(settings: Settings) -> Result<Running, StartError> {
    let listener = Listener::bind(settings.http.listen).await?;
    let clock = Clock::start();
    let database = open(&settings.database).await?;
    let store = Store::open(&database).await.map_err(storage)?;
    store.repair(DateTime::from_millis(clock.now_ms())).await.map_err(storage)?;
    let secret = match settings.secret_in_database {
        true => store.shared_secret(&settings.secret).await.map_err(storage)?,
        false => settings.secret,
    };
    let upkeep = tokio::spawn(upkeep(store.clone(), clock)).abort_handle();
    let state = State {
        database,
        store,
        rules: Rules::new(settings.roles),
        accounts: settings.accounts,
        guesses: settings.failures.map(Guesses::new),
        oidc: settings.oidc,
        sessions: Sessions::new(&secret).map_err(StartError::Storage)?,
        token: settings.token,
        is_secure: settings.http.tls.is_some(),
        datasets: settings.datasets,
        upkeep,
    };
    Ok(listener.serve(api::service(state, clock), settings.http))
}

/// Opens the database, and checks that its server answers.
async fn open(settings: &settings::Database) -> Result<mongodb::Database, StartError> {
    let uri = settings.uri.as_deref().ok_or_else(|| unusable("no server is named: set database.uri"))?;
    let mut options =
        ClientOptions::parse(uri).await.map_err(|_| unusable("the connection string cannot be read"))?;
    options.app_name.get_or_insert_with(|| "plimsoll-catalogue".into());
    options.server_selection_timeout.get_or_insert(SELECT_MAX);
    options.max_pool_size.get_or_insert(CONNECTIONS_MAX);
    let concern = options.write_concern.get_or_insert_with(WriteConcern::default);
    concern.w.get_or_insert(Acknowledgment::Majority);
    concern.journal.get_or_insert(true);
    let database =
        Client::with_options(options).map_err(|error| unusable(reason(&error)))?.database(&settings.name);
    database.run_command(doc! {"ping": 1}).await.map_err(|error| unusable(reason(&error)))?;
    Ok(database)
}

/// Collects the keys of metadata, fills in the index of texts, removes abandoned blocks and finishes uncounted ones, for ever.
async fn upkeep(store: Store, clock: Clock) {
    loop {
        let now = DateTime::from_millis(clock.now_ms());
        match once(&store, now).await {
            Ok(Done::Some) => (),
            Ok(Done::All) => tokio::time::sleep(UPKEEP_EVERY).await,
            Err(error) => {
                tracing::warn!(%error, "the upkeep failed");
                tokio::time::sleep(UPKEEP_EVERY).await;
            }
        }
    }
}

enum Done {
    All,
    Some,
}

async fn once(store: &Store, now: DateTime) -> Result<Done, storage::Error> {
    // No job waits for the success of another.
    let (batch, swept) = (store.collect_keys(now).await, store.sweep(now).await);
    let (repaired, indexed) = (store.repair(now).await, store.index_texts(now).await);
    let (read, changed) = (batch?.datasets + indexed?, swept? + repaired?);
    Ok(if read + changed == 0 { Done::All } else { Done::Some })
}
