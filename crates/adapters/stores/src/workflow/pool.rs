//! Keeps connections to the primary. A command borrows a connection; a broken connection is not returned.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};
use plimsoll_deployment::{Deployment, Error, Listing, Step, is_transient_code};
use plimsoll_measure::random::mix;
use plimsoll_wire::{Connection, Error as WireError, ServerError};
use plimsoll_workflow::port::{Reason, StoreError, Stored};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::PLACES_MAX;
use crate::reply::{number, server_error, words};

/// The time limit of a command and of a connection's start.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Connections to one deployment.
#[derive(Debug)]
pub(super) struct Pool {
    deployment: Deployment,
    pub(super) db: String,
    /// The unique number from which this process derives its sessions.
    pub(super) first: i64,
    /// Places for connections.
    pub(super) size: usize,
    /// Whether the server has transactions, as far as it is known.
    pub(super) has_transactions: AtomicBool,
    permits: Semaphore,
    /// Unused places; those with an open connection come last.
    idle: Mutex<VecDeque<Place>>,
}

/// A place for a connection, with its session.
#[derive(Debug)]
struct Place {
    number: usize,
    transactions: i64,
    connection: Option<Connection>,
}

impl Pool {
    /// Finds the deployment of `uri`. At most `connections` are open at once.
    ///
    /// # Errors
    ///
    /// If the URI is unusable, or no server answers.
    pub(super) async fn open(uri: &str, db: &str, connections: usize, first: i64) -> Stored<Self> {
        let deployment = Deployment::find(uri, PATIENCE).await.map_err(|error| classify(&error))?;
        let size = connections.clamp(1, PLACES_MAX);
        let places = (0..size).map(|number| Place { number, transactions: 0, connection: None });
        Ok(Self {
            deployment,
            db: db.to_owned(),
            first,
            size,
            has_transactions: AtomicBool::new(true),
            permits: Semaphore::new(size),
            idle: Mutex::new(places.collect()),
        })
    }

    /// Opens a connection that takes no place.
    ///
    /// # Errors
    ///
    /// If no server answers.
    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        self.deployment.connect().await
    }

    /// Takes a place that is not in use.
    ///
    /// # Errors
    ///
    /// If the pool is closed.
    pub(super) async fn borrow(&self) -> Stored<Borrowed<'_>> {
        let closed = || StoreError::Unavailable("the store is closed".into());
        let permit = self.permits.acquire().await.map_err(|_| closed())?;
        let place = lock(&self.idle).pop_back().ok_or_else(closed)?;
        Ok(Borrowed { pool: self, place: Some(place), _permit: permit })
    }

    /// Runs a command. Failures of single writes are in the reply.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the command.
    pub(super) async fn run(&self, command: &RawDocument) -> Stored<RawDocumentBuf> {
        self.borrow().await?.command(&self.db, command).await.map_err(|error| classify(&error))
    }

    /// Creates a collection, unless it exists.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the command.
    pub(super) async fn create(&self, collection: &str) -> Stored<()> {
        if self.has(collection).await? {
            return Ok(());
        }
        match self.run(&rawdoc! {"create": collection}).await {
            // Another process created it meanwhile.
            Err(error) if error.to_string().contains("exists") => Ok(()),
            result => result.map(drop),
        }
    }

    /// Whether a collection exists.
    async fn has(&self, collection: &str) -> Stored<bool> {
        let mut listing = Listing::of(&self.db, collection);
        let mut command = listing.command_of_names();
        loop {
            match listing.read(&self.run(&command).await?) {
                Step::Ask(next) => command = next,
                Step::Done(found) => return Ok(!found.is_empty()),
                Step::Malformed => return Ok(false),
            }
        }
    }

    /// Runs a command whose single writes must all succeed.
    ///
    /// # Errors
    ///
    /// If the command or one of its writes fails, or the write concern is not satisfied.
    pub(super) async fn write(&self, command: &RawDocument) -> Stored<RawDocumentBuf> {
        let reply = self.run(command).await?;
        match server_error(&reply) {
            Some(error) if reply.get("writeErrors").is_ok_and(|it| it.is_some()) => {
                Err(of_write_error(error))
            }
            Some(error) => Err(StoreError::Unavailable(reason(error))),
            None => Ok(reply),
        }
    }
}

/// A place in use, which returns to the pool when this value is dropped.
pub(super) struct Borrowed<'a> {
    pool: &'a Pool,
    place: Option<Place>,
    _permit: SemaphorePermit<'a>,
}

impl Borrowed<'_> {
    /// Runs a command, on a new connection if none is open. A connection that is dropped during a command
    /// does not return to the pool.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the command.
    pub(super) async fn command(&mut self, db: &str, command: &RawDocument) -> Result<RawDocumentBuf, Error> {
        let open = self.place.as_mut().and_then(|place| place.connection.take());
        let mut connection = match open {
            Some(connection) => connection,
            None => self.pool.deployment.connect().await?,
        };
        let reply = connection.command(db, command).await;
        let stays = !connection.is_broken() && !matches!(&reply, Err(error) if is_transient(error));
        if let (true, Some(place)) = (stays, &mut self.place) {
            place.connection = Some(connection);
        }
        Ok(reply?)
    }

    /// The session, and the number of its next transaction.
    pub(super) fn next_transaction(&mut self) -> (Binary, i64) {
        let (number, transaction) = self.place.as_mut().map_or((0, 0), |place| {
            place.transactions += 1;
            (place.number, place.transactions)
        });
        (session(self.pool.first, number), transaction)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut idle = lock(&self.pool.idle);
        if place.connection.is_some() {
            idle.push_back(place);
        } else {
            idle.push_front(place);
        }
    }
}

fn lock(idle: &Mutex<VecDeque<Place>>) -> MutexGuard<'_, VecDeque<Place>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another connection may succeed: this connection may lead to a server that is no longer the
/// primary.
fn is_transient(error: &WireError) -> bool {
    matches!(error, WireError::Server(error) if is_transient_code(error.code))
}

/// Whether the content of an operation is to blame for an error: it is invalid or too large. All other errors may pass: a missing right, a server
/// that shuts down.
fn is_content(code: i64) -> bool {
    // BadValue, FailedToParse, TypeMismatch, Overflow, InvalidBSON, DocumentValidationFailure, BSONObjectTooLarge and KeyTooLong.
    [2, 9, 14, 15, 22, 121, 10334, 17280, 17419, 17420].contains(&code)
}

/// The failure of one write.
pub(super) fn of_write_error(error: &RawDocument) -> StoreError {
    let reason = reason(error);
    if is_content(reason.code.into()) { StoreError::Refused(reason) } else { StoreError::Unavailable(reason) }
}

/// The reason in an error of the server.
pub(super) fn reason(error: &RawDocument) -> Reason {
    let text = |key| error.get_str(key).unwrap_or_default().to_owned();
    let code = number(error, "code").and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
    Reason { code, name: text("codeName"), message: words(error).to_owned() }
}

pub(super) fn classify(error: &Error) -> StoreError {
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
    let reason = match error {
        Error::Wire(WireError::Server(ServerError { code, name, message, .. })) => {
            Reason { code: *code, name: name.clone(), message: message.clone() }
        }
        error => error.to_string().into(),
    };
    if is_refused || is_unusable { StoreError::Refused(reason) } else { StoreError::Unavailable(reason) }
}

/// The session of a place in the pool of the process with the number `first`.
pub(super) fn session(first: i64, place: usize) -> Binary {
    let half = |salt: u64| mix(mix(first.cast_unsigned() ^ salt).wrapping_add(place as u64)).to_be_bytes();
    let mut bytes = [half(0), half(u64::MAX)].concat();
    // Version and variant of a random UUID.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Binary { subtype: BinarySubtype::Uuid, bytes }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_error_keeps_the_code_the_name_and_the_message_of_the_server() {
        let kept = |code, name: &str| Reason { code, name: name.into(), message: "no".into() };
        let of_command = |code, name: &str| {
            let (name, message) = (name.to_owned(), "no".to_owned());
            let error = ServerError { code, name, message, labels: Vec::new() };
            classify(&Error::Wire(WireError::Server(error)))
        };
        let of_write = |code: i32| of_write_error(&rawdoc! {"index": 0, "code": code, "errmsg": "no"});
        for (error, expected) in [
            (of_command(10334, "BSONObjectTooLarge"), StoreError::Refused(kept(10334, "BSONObjectTooLarge"))),
            (of_command(13, "Unauthorized"), StoreError::Unavailable(kept(13, "Unauthorized"))),
            (of_write(121), StoreError::Refused(kept(121, ""))),
            (of_write(112), StoreError::Unavailable(kept(112, ""))),
        ] {
            assert_eq!(error, expected);
        }
        let concern = rawdoc! {"code": 64_i64, "codeName": "WriteConcernTimeout", "errmsg": "no"};
        assert_eq!(reason(&concern), kept(64, "WriteConcernTimeout"));
    }

    #[test]
    fn every_place_of_every_process_has_its_own_session() {
        let sessions: BTreeSet<_> =
            (-3..3).flat_map(|first| (0..50).map(move |place| session(first, place).bytes)).collect();
        assert_eq!(sessions.len(), 300);
        assert!(sessions.iter().all(|id| id.len() == 16 && id[6] >> 4 == 4 && id[8] >> 6 == 2));
        assert_eq!(session(7, 3), session(7, 3));
    }
}
