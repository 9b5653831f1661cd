//! Writes single starts and changes in transactions: the control arm of comparisons with the batches.

use std::sync::{Mutex, PoisonError};

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, cstr, rawdoc};
use plimsoll_deployment::{Deployment, Error};
use plimsoll_wire::{Connection, Error as WireError};
use plimsoll_workflow::port::{Committed, Inserted, StoreError, Stored};
use tokio::sync::Semaphore;

use super::durable;
use super::pool::{PATIENCE, classify};
use crate::document::identity::random;
use crate::reply::{DUPLICATE_KEY, failure, number};

/// Attempts of a transaction that other transactions disturb.
const ATTEMPTS_MAX: u32 = 10;
/// The label of an error after which the whole transaction may be repeated.
const TRANSIENT: &str = "TransientTransactionError";

/// Connections with a session each.
#[derive(Debug)]
pub(super) struct Transactions {
    deployment: Deployment,
    db: String,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// A connection and its session.
#[derive(Debug)]
struct Session {
    connection: Connection,
    id: [u8; 16],
    /// The number of the last transaction.
    number: i64,
}

/// The reason why a transaction was not committed.
enum Undone {
    /// The compare-and-set lost, or the document exists.
    Lost,
    /// Another transaction disturbed it.
    Disturbed(String),
    /// The store failed.
    Failed(StoreError),
}

impl Transactions {
    /// Finds the deployment of `uri`. At most `connections` transactions are under way at once.
    ///
    /// # Errors
    ///
    /// If the URI is unusable, or no server answers.
    pub(super) async fn open(uri: &str, db: &str, connections: usize) -> Stored<Self> {
        let deployment = Deployment::find(uri, PATIENCE).await.map_err(|error| classify(&error))?;
        let permits = Semaphore::new(connections.max(1));
        Ok(Self { deployment, db: db.to_owned(), permits, idle: Mutex::default() })
    }

    /// Inserts one document.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses.
    pub(super) async fn insert(&self, collection: &str, document: &RawDocument) -> Stored<Inserted> {
        let insert = rawdoc! {"insert": collection, "documents": [document.to_owned()]};
        Ok(if self.repeat(&[insert]).await? { Inserted::New } else { Inserted::Known })
    }

    /// Changes one document, and removes others if the change wins.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses.
    pub(super) async fn change(
        &self,
        update: RawDocumentBuf,
        removal: Option<RawDocumentBuf>,
    ) -> Stored<Committed> {
        let commands: Vec<_> = std::iter::once(update).chain(removal).collect();
        Ok(if self.repeat(&commands).await? { Committed::Won } else { Committed::Lost })
    }

    /// Runs commands in one transaction; returns whether it was committed. The first command must change a document.
    async fn repeat(&self, commands: &[RawDocumentBuf]) -> Stored<bool> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.once(commands).await {
                Ok(()) => return Ok(true),
                Err(Undone::Lost) => return Ok(false),
                Err(Undone::Disturbed(words)) => last = words,
                Err(Undone::Failed(error)) => return Err(error),
            }
        }
        Err(StoreError::Unavailable(last))
    }

    async fn once(&self, commands: &[RawDocumentBuf]) -> Result<(), Undone> {
        let closed = |_| Undone::Failed(StoreError::Unavailable("the store is closed".into()));
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let mut session = self.session().await.map_err(Undone::Failed)?;
        session.number += 1;
        let result = session.run(&self.db, commands).await;
        if !session.connection.is_broken() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
        result
    }

    async fn session(&self) -> Stored<Session> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(session) = idle {
            return Ok(session);
        }
        let connection = self.deployment.connect().await.map_err(|error| classify(&error))?;
        Ok(Session { connection, id: random(), number: 0 })
    }
}

impl Session {
    async fn run(&mut self, db: &str, commands: &[RawDocumentBuf]) -> Result<(), Undone> {
        for (index, command) in commands.iter().enumerate() {
            let done = self.command(db, command, index == 0).await;
            let has_changed = |reply: &RawDocument| index > 0 || number(reply, "n") == Some(1);
            if let Err(undone) = done.and_then(|reply| check(&reply, has_changed(&reply))) {
                // A transaction that is not aborted holds its documents until its time limit.
                let abort = rawdoc! {"abortTransaction": 1};
                drop(self.command("admin", &abort, false).await);
                return Err(undone);
            }
        }
        let commit = rawdoc! {"commitTransaction": 1, "writeConcern": durable()};
        let reply = self.command("admin", &commit, false).await?;
        check(&reply, true)
    }

    async fn command(
        &mut self,
        db: &str,
        command: &RawDocument,
        is_first: bool,
    ) -> Result<RawDocumentBuf, Undone> {
        let mut command = command.to_owned();
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: self.id.to_vec() };
        command.append(cstr!("lsid"), rawdoc! {"id": id});
        command.append(cstr!("txnNumber"), self.number);
        command.append(cstr!("autocommit"), false);
        if is_first {
            command.append(cstr!("startTransaction"), true);
        }
        self.connection.command(db, &command).await.map_err(undone)
    }
}

fn check(reply: &RawDocument, has_changed: bool) -> Result<(), Undone> {
    let first = reply.get_array("writeErrors").ok().and_then(|errors| errors.into_iter().next()?.ok());
    let code = first.and_then(|error| number(error.as_document()?, "code"));
    match (code, failure(reply)) {
        (Some(code), _) if code == i64::from(DUPLICATE_KEY) => Err(Undone::Lost),
        (_, Some(words)) => Err(Undone::Disturbed(words)),
        _ if has_changed => Ok(()),
        _ => Err(Undone::Lost),
    }
}

fn undone(error: WireError) -> Undone {
    match &error {
        WireError::Server(server) if server.code == DUPLICATE_KEY => Undone::Lost,
        WireError::Server(server) if server.labels.iter().any(|label| label == TRANSIENT) => {
            Undone::Disturbed(error.to_string())
        }
        _ => Undone::Failed(classify(&Error::Wire(error))),
    }
}
