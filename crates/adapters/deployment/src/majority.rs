//! Waits until a majority of a replica set has all earlier writes, so that a scan at majority misses none.

use bson::rawdoc;
use plimsoll_wire::{Connection, Error as WireError};

use crate::namespace::Namespace;

/// The time limit for the members to catch up, in milliseconds.
const CATCH_UP_MS: i32 = 100_000;

/// The reason why a collection cannot be scanned at majority.
#[derive(Debug, thiserror::Error)]
pub enum MajorityError {
    /// The connection failed, or the server refused.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A majority lags behind the primary: reading at majority would report missing documents.
    #[error(
        "a majority of the replica set did not catch up in time ({0}): wait until it has, then audit again"
    )]
    Behind(String),
}

/// Waits until a majority has all writes that the primary had at the call: until then, a document acknowledged by one member
/// alone is not visible at majority. An update that matches nothing waits for the last operation of the system (MongoDB,
/// `src/mongo/db/repl/repl_client_info.h`, `setLastOpToSystemLastOpTime`). A standalone server needs no waiting.
///
/// # Errors
/// [`MajorityError::Behind`] if the wait takes longer than 100 s; else the server's refusal.
pub async fn catch_up(connection: &mut Connection, namespace: &Namespace) -> Result<(), MajorityError> {
    if !connection.hello().is_replicated() {
        return Ok(());
    }
    let nothing = rawdoc! {"q": {"_id": "plimsoll: no document has this id"}, "u": {"$set": {"plimsoll": 1}}};
    let update = rawdoc! {
        "update": namespace.collection.as_str(),
        "updates": [nothing],
        "writeConcern": {"w": "majority", "wtimeout": CATCH_UP_MS},
    };
    let reply = connection.command(&namespace.db, &update).await?;
    match reply.get_document("writeConcernError") {
        Ok(error) => {
            Err(MajorityError::Behind(error.get_str("errmsg").unwrap_or("no reason given").to_owned()))
        }
        Err(_) => Ok(()),
    }
}
