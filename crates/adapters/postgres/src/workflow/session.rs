//! Holds the connections of a store. The next operation reopens a broken connection.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_workflow::port::{Reason, StoreError, Stored};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use super::address::{Address, words};
use super::sql;

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
    client: Client,
    statements: Vec<Statement>,
    /// The handle of the task that moves bytes between the client and the server.
    connection: AbortHandle,
    patience: Duration,
    /// Whether an answer is overdue: the state of the connection is then unknown.
    is_silent: AtomicBool,
}

impl Session {
    /// Opens a connection without prepared statements.
    ///
    /// # Errors
    ///
    /// If the server does not answer within the time limit, or refuses.
    pub(super) async fn open(address: &Address, patience: Duration) -> Stored<Self> {
        let (client, connection) = match timeout(patience, address.connect()).await {
            Ok(opened) => opened.map_err(|error| unopened(&error))?,
            Err(_) => return Err(silent(patience)),
        };
        let connection = tokio::spawn(connection).abort_handle();
        Ok(Self { client, statements: Vec::new(), connection, patience, is_silent: AtomicBool::new(false) })
    }

    async fn prepared(mut self) -> Stored<Self> {
        for prepared in Prepared::ALL {
            let statement = self.within(self.client.prepare(prepared.text())).await?;
            self.statements.push(statement);
        }
        Ok(self)
    }

    /// The rows of a prepared statement.
    pub(super) async fn query(&self, prepared: Prepared, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        let statement = &self.statements[prepared as usize];
        self.within(self.client.query(statement, params)).await
    }

    /// The rows of a statement that is given as text.
    pub(super) async fn rows(&self, text: &str, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        self.within(self.client.query(text, params)).await
    }

    /// Runs several statements without parameters.
    pub(super) async fn run(&self, texts: &str) -> Stored<()> {
        self.within(self.client.batch_execute(texts)).await
    }

    /// Waits for an answer within the time limit. Without an answer the connection becomes unusable, because
    /// the statement may still run.
    async fn within<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Stored<T> {
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(|error| classify(&error)),
            Err(_) => {
                self.is_silent.store(true, Ordering::Relaxed);
                self.connection.abort();
                Err(silent(self.patience))
            }
        }
    }

    fn is_usable(&self) -> bool {
        !self.is_silent.load(Ordering::Relaxed) && !self.client.is_closed()
    }
}

/// A connection ends with its session, even if the server is silent.
impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn silent(patience: Duration) -> StoreError {
    StoreError::Unavailable(format!("no answer within {} s", patience.as_secs_f64()).into())
}

/// The connections of a store.
#[derive(Debug)]
pub(super) struct Sessions {
    address: Address,
    patience: Duration,
    slots: Vec<Slot>,
}

/// Holds one connection.
#[derive(Debug, Default)]
struct Slot {
    /// The number of statements that use the connection now.
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
    pub(super) fn new(address: Address, count: usize, patience: Duration) -> Self {
        Self { address, patience, slots: (0..count.max(1)).map(|_| Slot::default()).collect() }
    }

    /// The first of the least busy connections. A server process that has just worked is quicker than a
    /// process that has slept.
    pub(super) async fn get(&self) -> Stored<Used<'_>> {
        let least = self.slots.iter().min_by_key(|slot| slot.busy.load(Ordering::Relaxed));
        let slot = least.ok_or_else(|| StoreError::Unavailable("the store has no connection".into()))?;
        let busy = Busy::new(&slot.busy);
        let mut place = slot.session.lock().await;
        if let Some(session) = place.as_ref().filter(|session| session.is_usable()) {
            return Ok(Used { session: Arc::clone(session), _busy: busy });
        }
        let session = Arc::new(Session::open(&self.address, self.patience).await?.prepared().await?);
        *place = Some(Arc::clone(&session));
        Ok(Used { session, _busy: busy })
    }

    /// The rows of a prepared statement on one of the connections.
    pub(super) async fn query(&self, prepared: Prepared, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        self.get().await?.query(prepared, params).await
    }
}

/// The error of a refused connection: permanent if the URI is at fault, else transient.
fn unopened(error: &Error) -> StoreError {
    // Class 28 is an invalid authorization, class 3D an unknown database.
    let is_uri = |code: &str| code.starts_with("28") || code.starts_with("3D");
    match error.code() {
        Some(code) if is_uri(code.code()) => StoreError::Refused(reason(error)),
        _ => StoreError::Unavailable(reason(error)),
    }
}

/// Classifies the error of a statement. Invalid data, violated constraints and exceeded limits are faults in
/// the operation's content. All other errors are transient: a server that became read-only, a missing right.
fn classify(error: &Error) -> StoreError {
    let is_content = |code: &str| ["22", "23", "54"].iter().any(|class| code.starts_with(class));
    match error.code() {
        Some(code) if is_content(code.code()) => StoreError::Refused(reason(error)),
        None if error.to_string().contains("serializing") => StoreError::Refused(reason(error)),
        _ => StoreError::Unavailable(reason(error)),
    }
}

/// The server's sentence with its code, or the library's with its cause.
fn reason(error: &Error) -> Reason {
    match error.as_db_error() {
        Some(said) => {
            let name = format!("SQLSTATE {}", said.code().code());
            Reason { code: 0, name, message: said.message().to_owned() }
        }
        None => words(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_install::Cache;
    use tokio::runtime::Builder;

    use super::*;
    use crate::server::{Server, Settings};
    use crate::workflow::Postgres;

    async fn pid(sessions: &Sessions) -> i32 {
        let session = sessions.get().await.unwrap();
        session.rows("SELECT pg_backend_pid()", &[]).await.unwrap()[0].get(0)
    }

    #[test]
    fn a_connection_with_an_overdue_answer_is_replaced() {
        let server = Server::start(Cache::locate().unwrap().root(), &Settings::default()).unwrap();
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            Postgres::open(&server.uri(), 1, 1).await.unwrap();
            let sessions = Sessions::new(Address::of(&server.uri()).unwrap(), 1, Duration::from_secs(2));
            let first = pid(&sessions).await;
            assert_eq!(pid(&sessions).await, first);
            let overdue = sessions.get().await.unwrap().rows("SELECT pg_sleep(60)", &[]).await;
            assert_eq!(overdue.unwrap_err(), silent(Duration::from_secs(2)));
            assert_ne!(pid(&sessions).await, first);
        });
    }
}
