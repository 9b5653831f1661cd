//! Keeps connections to the primary. A command borrows one; a broken one is not returned.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_deployment::{Deployment, Error, is_transient_code};
use plimsoll_wire::{Connection, Error as WireError};
use plimsoll_workflow::port::{StoreError, Stored};
use tokio::sync::Semaphore;

use crate::reply::{failure, first, number};

/// The time limit of a command and of a connection's start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections to one deployment.
#[derive(Debug)]
pub(super) struct Pool {
    deployment: Deployment,
    db: String,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    /// Finds the deployment of `uri`. At most `connections` are open at once.
    ///
    /// # Errors
    ///
    /// If the URI is unusable, or no server answers.
    pub(super) async fn open(uri: &str, db: &str, connections: usize) -> Stored<Self> {
        let deployment = Deployment::find(uri, PATIENCE).await.map_err(|error| classify(&error))?;
        let permits = Semaphore::new(connections.max(1));
        Ok(Self { deployment, db: db.to_owned(), permits, idle: Mutex::default() })
    }

    /// Runs a command. Failures of single writes are in the reply.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the command.
    pub(super) async fn run(&self, command: &RawDocument) -> Stored<RawDocumentBuf> {
        let closed = |_| StoreError::Unavailable("the store is closed".into());
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.deployment.connect().await.map_err(|error| classify(&error))?,
        };
        // A connection that is dropped in the middle of a command never comes back.
        let reply = connection.command(&self.db, command).await;
        let stays = !connection.is_broken() && !matches!(&reply, Err(error) if is_transient(error));
        if stays {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        reply.map_err(|error| classify(&Error::Wire(error)))
    }

    /// Creates a collection, unless it exists.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the command.
    pub(super) async fn create(&self, collection: &str) -> Stored<()> {
        let find = rawdoc! {"listCollections": 1, "filter": {"name": collection}, "nameOnly": true};
        if first(&self.run(&find).await?).is_some() {
            return Ok(());
        }
        match self.run(&rawdoc! {"create": collection}).await {
            // Another process created it meanwhile.
            Err(error) if error.to_string().contains("exists") => Ok(()),
            result => result.map(drop),
        }
    }

    /// Runs a command whose single writes must all succeed.
    ///
    /// # Errors
    ///
    /// If the command or one of its writes fails, or the write concern is not satisfied.
    pub(super) async fn write(&self, command: &RawDocument) -> Stored<RawDocumentBuf> {
        let reply = self.run(command).await?;
        let error = reply
            .get_array("writeErrors")
            .ok()
            .and_then(|errors| errors.into_iter().next()?.ok()?.as_document());
        let code = error.and_then(|error| number(error, "code"));
        match failure(&reply) {
            Some(words) if code.is_some_and(is_content) => Err(StoreError::Refused(words)),
            Some(words) => Err(StoreError::Unavailable(words)),
            None => Ok(reply),
        }
    }
}

/// Whether another connection may succeed: this one may lead to a server that is no longer the primary.
fn is_transient(error: &WireError) -> bool {
    matches!(error, WireError::Server(error) if is_transient_code(error.code))
}

/// Whether the content of an operation is to blame for an error: it is invalid or too large. All other errors may pass: a missing right, a server
/// that shuts down.
pub(super) fn is_content(code: i64) -> bool {
    // BadValue, FailedToParse, TypeMismatch, Overflow, InvalidBSON, DocumentValidationFailure, BSONObjectTooLarge and KeyTooLong.
    [2, 9, 14, 15, 22, 121, 10334, 17280, 17419, 17420].contains(&code)
}

fn classify(error: &Error) -> StoreError {
    let is_refused =
        matches!(error, Error::Wire(WireError::Server(error)) if is_content(i64::from(error.code)));
    let is_unusable = matches!(
        error,
        Error::Uri(_)
            | Error::Refused(_)
            | Error::OtherSet { .. }
            | Error::UnreadableFile { .. }
            | Error::Unacknowledged
    );
    let words = error.to_string();
    if is_refused || is_unusable { StoreError::Refused(words) } else { StoreError::Unavailable(words) }
}
