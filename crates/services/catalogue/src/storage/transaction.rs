//! Runs several writes as one transaction, or one after the other where the server has none.

use std::time::Duration;

use bson::Document;
use mongodb::error::{ErrorKind, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::{Client, ClientSession, Collection};

use super::{Error, Transactions};

/// The attempts of a transaction that conflicts with others.
const ATTEMPTS_MAX: u32 = 30;
/// The attempts of a transaction whose connection failed: another server may take over.
const CUT_MAX: u32 = 2;
/// The longest pause before the next attempt.
const PAUSE_MAX_MS: u64 = 64;

/// The number of documents that a write must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matches {
    /// Any number.
    Any,
    /// One or more. If no document matches, no write of the transaction is kept.
    Some,
}

/// One write.
#[derive(Clone)]
pub(super) enum Write {
    Insert(Collection<Document>, Document),
    Update(Collection<Document>, Document, Document, Matches),
    /// Updates a document, or inserts it if it does not exist.
    Upsert(Collection<Document>, Document, Document),
    UpdateAll(Collection<Document>, Document, Document),
    Delete(Collection<Document>, Document, Matches),
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All writes are stored.
    Done,
    /// The write with this index matched no document. With transactions nothing is stored.
    Unmatched(usize),
}

/// Runs the writes in order.
///
/// # Errors
/// The server failed, or a key exists.
pub(super) async fn run(
    client: &Client,
    transactions: Transactions,
    writes: &[Write],
) -> Result<Outcome, Error> {
    if transactions == Transactions::Missing {
        return Ok(all(writes, &mut None).await?);
    }
    let mut attempt = 1;
    loop {
        match once(client, writes).await {
            Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) && attempt < most(&error) => {
                tokio::time::sleep(pause(attempt)).await;
                attempt += 1;
            }
            ended => return Ok(ended?),
        }
    }
}

/// The attempts after an error. Only one if no server was found, because the driver has already waited for a server.
fn most(error: &mongodb::error::Error) -> u32 {
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => 1,
        ErrorKind::Io(_) => CUT_MAX,
        _ => ATTEMPTS_MAX,
    }
}

/// The pause after a conflict. One of the transactions in conflict always succeeds.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(PAUSE_MAX_MS.min(1 << attempt.min(10)))
}

async fn once(client: &Client, writes: &[Write]) -> mongodb::error::Result<Outcome> {
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    let mut session = Some(session);
    let result = all(writes, &mut session).await;
    let Some(mut session) = session else { return result };
    match result {
        Ok(Outcome::Done) => commit(&mut session).await.map(|()| Outcome::Done),
        Err(error) if most(&error) < ATTEMPTS_MAX => Err(error),
        other => {
            // A failed abort has no effect: the server ends the transaction by itself.
            session.abort_transaction().await.unwrap_or_default();
            other
        }
    }
}

/// Commits. A commit without an answer is repeated, which has no second effect.
async fn commit(session: &mut ClientSession) -> mongodb::error::Result<()> {
    let mut attempt = 1;
    loop {
        match session.commit_transaction().await {
            Err(error)
                if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && attempt < most(&error) =>
            {
                attempt += 1;
            }
            ended => return ended,
        }
    }
}

async fn all(writes: &[Write], session: &mut Option<ClientSession>) -> mongodb::error::Result<Outcome> {
    for (index, write) in writes.iter().enumerate() {
        let (matched, needed) = one(write, session).await?;
        if matched == 0 && needed == Matches::Some {
            return Ok(Outcome::Unmatched(index));
        }
    }
    Ok(Outcome::Done)
}

async fn one(write: &Write, session: &mut Option<ClientSession>) -> mongodb::error::Result<(u64, Matches)> {
    match write {
        Write::Insert(collection, document) => {
            let insert = collection.insert_one(document);
            match session {
                Some(session) => insert.session(session).await?,
                None => insert.await?,
            };
            Ok((1, Matches::Some))
        }
        Write::Update(collection, filter, update, matches) => {
            let update = collection.update_one(filter.clone(), update.clone());
            let updated = match session {
                Some(session) => update.session(session).await?,
                None => update.await?,
            };
            Ok((updated.matched_count, *matches))
        }
        Write::Upsert(collection, filter, update) => {
            let update = collection.update_one(filter.clone(), update.clone()).upsert(true);
            match session {
                Some(session) => update.session(session).await?,
                None => update.await?,
            };
            Ok((1, Matches::Some))
        }
        Write::UpdateAll(collection, filter, update) => {
            let update = collection.update_many(filter.clone(), update.clone());
            let updated = match session {
                Some(session) => update.session(session).await?,
                None => update.await?,
            };
            Ok((updated.matched_count, Matches::Any))
        }
        Write::Delete(collection, filter, matches) => {
            let delete = collection.delete_many(filter.clone());
            let deleted = match session {
                Some(session) => delete.session(session).await?,
                None => delete.await?,
            };
            Ok((deleted.deleted_count, *matches))
        }
    }
}
