//! Holds the connections of a store. A broken one is opened again by the next operation.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_workflow::port::{StoreError, Stored};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::config::{Config, SslMode};
use tokio_postgres::{Client, Error, NoTls, Row, Statement, types::ToSql};

use super::sql;

/// The time limit of a connection's start and of one statement.
const PATIENCE: Duration = Duration::from_secs(30);
/// Settings of every connection. Commits are durable. Plans are made once, and use indexes whatever the statistics say: tables that grow from
/// nothing have none.
const SETTINGS: &str = "-c synchronous_commit=on -c search_path=plimsoll_workflow -c plan_cache_mode=force_generic_plan \
                        -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off -c jit=off";

/// The statements that are prepared once for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    Start,
    Publish,
    Lease,
    DueSignals,
    DueRecords,
    Load,
    Commit,
    Remove,
}

impl Prepared {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Publish,
        Self::Lease,
        Self::DueSignals,
        Self::DueRecords,
        Self::Load,
        Self::Commit,
        Self::Remove,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Start => sql::START,
            Self::Publish => sql::PUBLISH,
            Self::Lease => sql::LEASE,
            Self::DueSignals => sql::DUE_SIGNALS,
            Self::DueRecords => sql::DUE_RECORDS,
            Self::Load => sql::LOAD,
            Self::Commit => sql::COMMIT,
            Self::Remove => sql::REMOVE,
        }
    }
}

/// A connection with its statements, in the order of [`Prepared::ALL`].
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    statements: Vec<Statement>,
}

impl Session {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If the server does not answer or refuses.
    pub(super) async fn open(config: &Config) -> Stored<Client> {
        let (client, connection) = within(config.connect(NoTls)).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn prepare(client: Client) -> Stored<Self> {
        let mut statements = Vec::new();
        for prepared in Prepared::ALL {
            statements.push(within(client.prepare(prepared.text())).await?);
        }
        Ok(Self { client, statements })
    }

    /// The rows of a prepared statement.
    pub(super) async fn query(&self, prepared: Prepared, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        let statement = &self.statements[prepared as usize];
        within(self.client.query(statement, params)).await
    }
}

/// The connections.
#[derive(Debug)]
pub(super) struct Sessions {
    config: Config,
    slots: Vec<Slot>,
}

/// The place of a connection.
#[derive(Debug, Default)]
struct Slot {
    /// Statements under way.
    busy: AtomicUsize,
    session: Mutex<Option<Arc<Session>>>,
}

/// A connection that a statement uses.
pub(super) struct Used<'a> {
    session: Arc<Session>,
    _busy: Busy<'a>,
}

/// Counts a statement until it is dropped.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Deref for Used<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sessions {
    /// Connections to one server, opened when they are first used.
    pub(super) fn new(config: Config, count: usize) -> Self {
        Self { config, slots: (0..count.max(1)).map(|_| Slot::default()).collect() }
    }

    /// The first of the least busy connections. A process of the server that has just worked is quicker than one that has slept.
    pub(super) async fn get(&self) -> Stored<Used<'_>> {
        let least = self.slots.iter().min_by_key(|slot| slot.busy.load(Ordering::Relaxed));
        let slot = least.ok_or_else(|| StoreError::Unavailable("the store has no connection".into()))?;
        let busy = Busy::new(&slot.busy);
        let mut place = slot.session.lock().await;
        if let Some(session) = place.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Used { session: Arc::clone(session), _busy: busy });
        }
        let session = Arc::new(Session::prepare(Session::open(&self.config).await?).await?);
        *place = Some(Arc::clone(&session));
        Ok(Used { session, _busy: busy })
    }

    /// The rows of a prepared statement on one of the connections.
    pub(super) async fn query(&self, prepared: Prepared, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        self.get().await?.query(prepared, params).await
    }
}

/// Reads a URI, and adds the settings of every connection.
///
/// # Errors
///
/// If the URI is invalid, or asks for TLS.
pub(super) fn config(uri: &str) -> Stored<Config> {
    let mut config: Config = uri
        .parse()
        .map_err(|error: Error| StoreError::Refused(format!("the URI of PostgreSQL: {}", words(&error))))?;
    if config.get_ssl_mode() == SslMode::Require {
        let words =
            "the URI asks for TLS, which this store does not support: use a local server, or a tunnel";
        return Err(StoreError::Refused(words.into()));
    }
    let own = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
    config
        .options(format!("{own}{SETTINGS}"))
        .application_name("plimsoll-workflow")
        .connect_timeout(PATIENCE);
    Ok(config)
}

/// Waits for an answer within the time limit.
pub(super) async fn within<T>(answer: impl Future<Output = Result<T, Error>>) -> Stored<T> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| classify(&error)),
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Invalid data, violated constraints and exceeded limits are the fault of the operation's content. Everything else may pass: a server that became
/// read-only, a missing right.
fn classify(error: &Error) -> StoreError {
    let is_content = |code: &str| ["22", "23", "54"].iter().any(|class| code.starts_with(class));
    match error.code() {
        Some(code) if is_content(code.code()) => StoreError::Refused(words(error)),
        None if error.to_string().contains("serializing") => StoreError::Refused(words(error)),
        _ => StoreError::Unavailable(words(error)),
    }
}

/// The server's sentence, or the library's with its cause.
fn words(error: &Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
