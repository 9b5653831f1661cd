//! Sends the commands of a transaction, and classifies their errors.

use std::ops::Range;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawDocument, rawdoc};
use plimsoll_deployment::{Namespace, is_transient_code};
use plimsoll_element::{append, kind};
use plimsoll_pipeline::{Failure, FailureClass};
use plimsoll_wire::{Call, CallReply, Class, Connection, Error as Wire};

use super::plan::Writes;
use super::verdict::COMMAND_CODES;
use crate::document::identity::Identity;
use crate::reply::{self, DUPLICATE_KEY};

/// The largest size of the documents in one command: the servers' limit, less the rest of the command.
pub const COMMAND_BYTES_MAX: usize = 15 << 20;
/// The label of a commit with an unknown result.
pub const UNKNOWN_COMMIT: &str = "UnknownTransactionCommitResult";
/// The largest number of documents in one command.
const COMMAND_DOCUMENTS_MAX: usize = 50_000;
const TRANSIENT: &str = "TransientTransactionError";

/// The reason why a transaction did not complete.
#[derive(Debug)]
pub enum TransactionError {
    /// Transient: retry the transaction.
    Retry(String),
    /// A document was refused and excluded: retry the transaction at once.
    Excluded,
    /// Another process holds the partition.
    Fenced,
    /// Permanent, or with an unknown result.
    Stop(Failure),
}

/// A refused document, which aborts the whole transaction.
pub struct Refused {
    /// The offset of its event.
    pub offset: u64,
    /// The server's reason.
    pub words: String,
    /// Whether a document with this `_id` already exists.
    pub of_id: bool,
}

/// Whether a command starts its transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The first command.
    Yes,
    /// A later command.
    No,
}

/// Inserts documents with as many commands as needed. Returns the first refused document.
pub async fn insert(
    (connection, reply): (&mut Option<Connection>, &mut CallReply),
    (id, number): ([u8; 16], i64),
    namespace: &Namespace,
    bytes: &[u8],
    writes: &Writes,
) -> Result<Option<Refused>, TransactionError> {
    let Some(connection) = connection else { return Err(classify(&lost())) };
    let mut call = Call::new(&namespace.db, &connection.limits());
    let mut rest = writes.documents.as_slice();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(command_len(rest));
        rest = behind;
        let written = call.body(|out| {
            append::string(out, "insert", &namespace.collection);
            append::array(out, "documents", |out| {
                for (index, (range, _)) in part.iter().enumerate() {
                    append::item(out, kind::DOCUMENT, index);
                    out.extend_from_slice(&bytes[range.clone()]);
                }
            });
            session(out, id, number, Start::No);
        });
        written.map_err(|error| classify(&error.into()))?;
        connection.call(&mut call, reply).await.map_err(|error| classify(&error))?;
        if let Some(refused) = reply.body().and_then(|body| first_refused(body, part)) {
            return refused.map(Some);
        }
    }
    Ok(None)
}

/// The offsets of the events whose documents already exist, with the topic and partition of `like`. One query finds them
/// all; without it, each existing document would cost one transaction. If the server refuses the query, no document
/// counts as existing.
pub async fn present(
    connection: &mut Option<Connection>,
    namespace: &Namespace,
    like: Identity,
    writes: &Writes,
) -> Result<Vec<u64>, TransactionError> {
    let Some(connection) = connection else { return Err(classify(&lost())) };
    let mut ids = RawArrayBuf::new();
    for (_, offset) in &writes.documents {
        let bytes = Identity { offset: *offset, ..like }.to_bytes().to_vec();
        ids.push(Binary { subtype: BinarySubtype::Generic, bytes });
    }
    let find = rawdoc! {
        "find": &*namespace.collection,
        "filter": {"_id": {"$in": ids}},
        "projection": {"_id": 1},
        "batchSize": i32::try_from(writes.documents.len()).unwrap_or(i32::MAX),
        "singleBatch": true,
    };
    match connection.command(&namespace.db, &find).await {
        Ok(reply) => Ok(offsets(&reply, like)),
        Err(Wire::Server(_)) => Ok(Vec::new()),
        Err(error) => Err(classify(&error)),
    }
}

/// The offsets in the `_id`s of a reply's documents with the topic and partition of `like`.
fn offsets(reply: &RawDocument, like: Identity) -> Vec<u64> {
    let documents = reply::documents(reply).into_iter().flatten().flatten();
    let ids = documents.filter_map(|document| Identity::from_bytes(document.get_binary("_id").ok()?.bytes));
    let ours = ids.filter(|identity| Identity { offset: like.offset, ..*identity } == like);
    ours.map(|identity| identity.offset).collect()
}

/// The number of documents that fit one command: at least one.
fn command_len(documents: &[(Range<usize>, u64)]) -> usize {
    let mut bytes = 0;
    let fits = |(range, _): &&(Range<usize>, u64)| {
        // Each document also has a type byte and its index in decimal.
        bytes += range.len() + 8;
        bytes <= COMMAND_BYTES_MAX
    };
    documents.iter().take(COMMAND_DOCUMENTS_MAX).take_while(fits).count().max(1)
}

/// The first write error of a reply: a refused document, or an error of the transaction.
fn first_refused(
    body: &RawDocument,
    part: &[(Range<usize>, u64)],
) -> Option<Result<Refused, TransactionError>> {
    let errors = body.get_array("writeErrors").ok()?;
    let error = errors.into_iter().next()?.ok()?.as_document()?;
    let code = error.get_i32("code").unwrap_or(0);
    let words = error.get_str("errmsg").unwrap_or("no reason was given").to_owned();
    if is_transient_code(code) {
        return Some(Err(TransactionError::Retry(words)));
    }
    let place = error.get_i32("index").ok().and_then(|index| usize::try_from(index).ok());
    let Some((_, offset)) = place.and_then(|place| part.get(place)) else {
        return Some(Err(stop(
            FailureClass::Final,
            format!("the server refused a document that was not sent: {words}"),
        )));
    };
    let key = error.get_document("keyPattern").ok();
    let of_id = match key {
        Some(key) => key.get("_id").is_ok_and(|found| found.is_some()) && key.iter().count() == 1,
        None => words.contains(" index: _id_ "),
    };
    Some(Ok(Refused { offset: *offset, words, of_id: of_id && code == DUPLICATE_KEY }))
}

/// Appends the session fields of a transaction's command.
pub fn session(out: &mut Vec<u8>, id: [u8; 16], number: i64, start: Start) {
    append::nested(out, "lsid", |out| append::uuid(out, "id", &id));
    append::int64(out, "txnNumber", number);
    append::boolean(out, "autocommit", false);
    if start == Start::Yes {
        append::boolean(out, "startTransaction", true);
    }
}

pub fn stop(class: FailureClass, reason: impl Into<String>) -> TransactionError {
    TransactionError::Stop(Failure { class, reason: reason.into() })
}

/// The error of a missing connection, equal to the error of a broken connection.
pub fn lost() -> Wire {
    let address = plimsoll_wire::Address { host: "the server".into(), port: 0 };
    Wire::Broken { address }
}

/// Classifies an error of a command in the transaction, or of a commit that certainly failed.
pub fn classify(error: &Wire) -> TransactionError {
    match error {
        Wire::Server(server) => {
            let labelled = server.labels.iter().any(|label| label == TRANSIENT);
            let is_final =
                COMMAND_CODES.contains(&server.code) || Class::of_code(server.code) == Class::Unauthorized;
            match server.code {
                // NoSuchTransaction: the server ended the transaction at its time limit or by a restart.
                _ if labelled || server.code == 251 || is_transient_code(server.code) => {
                    TransactionError::Retry(error.to_string())
                }
                _ if is_final => stop(FailureClass::Final, error.to_string()),
                // TransactionTooLarge, TransactionTooLargeForCache.
                257 | 388 => stop(FailureClass::Final, format!("{error}; lower `gather_events`")),
                _ => stop(
                    FailureClass::Final,
                    format!("{error}; transactions need a replica set (at least one member)"),
                ),
            }
        }
        Wire::TooLarge(_) | Wire::Encode(_) => stop(FailureClass::Final, error.to_string()),
        _ => TransactionError::Retry(error.to_string()),
    }
}

/// Whether the result of a commit is unknown after this error.
pub fn is_unknown_commit(error: &Wire) -> bool {
    match error {
        Wire::Server(server) => {
            let transient = server.labels.iter().any(|label| label == TRANSIENT);
            server.labels.iter().any(|label| label == UNKNOWN_COMMIT)
                || (!transient && is_transient_code(server.code))
        }
        Wire::TooLarge(_) | Wire::Encode(_) => false,
        _ => true,
    }
}
