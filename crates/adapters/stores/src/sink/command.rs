//! The commands of a transaction, and what a server's refusal of one means for it.

use std::ops::Range;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawDocument, rawdoc};
use plimsoll_deployment::{Namespace, is_transient_code};
use plimsoll_pipeline::{Failure, FailureClass};
use plimsoll_wire::{Call, CallReply, Class, Connection, Error as Wire};

use super::plan::Writes;
use super::verdict::OF_COMMAND;
use crate::document::identity::Identity;
use crate::encode;

/// Bytes of documents in one command: what servers take, less the rest of the command.
pub const COMMAND_BYTES_MAX: usize = 15 << 20;
/// The label of a commit of which nobody knows.
pub const UNKNOWN_COMMIT: &str = "UnknownTransactionCommitResult";
/// Documents in one command.
const COMMAND_DOCUMENTS_MAX: usize = 50_000;
const DUPLICATE: i32 = 11000;
const TRANSIENT: &str = "TransientTransactionError";

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub enum Trouble {
    /// It may work when it is tried again.
    Again(String),
    /// One document was refused; without it, the transaction is tried again at once.
    Mended,
    /// Another process holds the partition.
    Fenced,
    /// It cannot work, or nobody knows whether it did.
    Stop(Failure),
}

/// A document that was refused, and with it the whole transaction.
pub struct Refused {
    /// The offset of its event.
    pub offset: u64,
    /// What the server said.
    pub words: String,
    /// Whether a document of this `_id` is there already.
    pub of_id: bool,
}

/// Whether a command begins its transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It is the first.
    Yes,
    /// It is a later one.
    No,
}

/// Inserts documents, as many commands as it takes; gives the one that was refused.
pub async fn insert(
    (connection, reply): (&mut Option<Connection>, &mut CallReply),
    (id, number): ([u8; 16], i64),
    namespace: &Namespace,
    bytes: &[u8],
    writes: &Writes,
) -> Result<Option<Refused>, Trouble> {
    let Some(connection) = connection else { return Err(trouble(&lost())) };
    let mut call = Call::new(&namespace.db, &connection.limits());
    let mut rest = writes.documents.as_slice();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(command_len(rest));
        rest = behind;
        let written = call.body(|out| {
            encode::string(out, "insert", &namespace.collection);
            encode::array(out, "documents", |out| {
                for (index, (range, _)) in part.iter().enumerate() {
                    encode::place(out, 0x03, index);
                    out.extend_from_slice(&bytes[range.clone()]);
                }
            });
            session(out, id, number, Start::No);
        });
        written.map_err(|error| trouble(&error.into()))?;
        connection.call(&mut call, reply).await.map_err(|error| trouble(&error))?;
        if let Some(refused) = reply.body().and_then(|body| first_refused(body, part)) {
            return refused.map(Some);
        }
    }
    Ok(None)
}

/// Which of these documents are there already, by the offsets of their events; `like` names the others' topic and partition. It
/// is one question instead of a transaction for each; a server that refuses it is taken to know none.
pub async fn present(
    connection: &mut Option<Connection>,
    namespace: &Namespace,
    like: Identity,
    writes: &Writes,
) -> Result<Vec<u64>, Trouble> {
    let Some(connection) = connection else { return Err(trouble(&lost())) };
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
        Err(error) => Err(trouble(&error)),
    }
}

/// The offsets in the `_id`s of a reply's documents, of the same topic and partition.
fn offsets(reply: &RawDocument, like: Identity) -> Vec<u64> {
    let found = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = found.into_iter().flatten().filter_map(|document| document.ok()?.as_document());
    let ids = documents.filter_map(|document| Identity::from_bytes(document.get_binary("_id").ok()?.bytes));
    let ours = ids.filter(|identity| Identity { offset: like.offset, ..*identity } == like);
    ours.map(|identity| identity.offset).collect()
}

/// How many documents fit a command: at least one.
fn command_len(documents: &[(Range<usize>, u64)]) -> usize {
    let mut bytes = 0;
    let fits = |(range, _): &&(Range<usize>, u64)| {
        // Each has a type and its place, in decimal, besides.
        bytes += range.len() + 8;
        bytes <= COMMAND_BYTES_MAX
    };
    documents.iter().take(COMMAND_DOCUMENTS_MAX).take_while(fits).count().max(1)
}

/// The first write error of a reply: which document was refused, or what went wrong with the transaction.
fn first_refused(body: &RawDocument, part: &[(Range<usize>, u64)]) -> Option<Result<Refused, Trouble>> {
    let errors = body.get_array("writeErrors").ok()?;
    let error = errors.into_iter().next()?.ok()?.as_document()?;
    let code = error.get_i32("code").unwrap_or(0);
    let words = error.get_str("errmsg").unwrap_or("no reason was given").to_owned();
    if is_transient_code(code) {
        return Some(Err(Trouble::Again(words)));
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
    Some(Ok(Refused { offset: *offset, words, of_id: of_id && code == DUPLICATE }))
}

/// Appends what makes a command one of the transaction.
pub fn session(out: &mut Vec<u8>, id: [u8; 16], number: i64, start: Start) {
    encode::nested(out, "lsid", |out| encode::uuid(out, "id", &id));
    encode::int64(out, "txnNumber", number);
    encode::boolean(out, "autocommit", false);
    if start == Start::Yes {
        encode::boolean(out, "startTransaction", true);
    }
}

pub fn stop(class: FailureClass, reason: impl Into<String>) -> Trouble {
    Trouble::Stop(Failure { class, reason: reason.into() })
}

/// No connection, in the words of one that broke.
pub fn lost() -> Wire {
    let address = plimsoll_wire::Address { host: "the server".into(), port: 0 };
    Wire::Broken { address }
}

/// What an error of a command in the transaction, or of a commit that certainly failed, means for it.
pub fn trouble(error: &Wire) -> Trouble {
    match error {
        Wire::Server(server) => {
            let labelled = server.labels.iter().any(|label| label == TRANSIENT);
            let is_final =
                OF_COMMAND.contains(&server.code) || Class::of_code(server.code) == Class::Unauthorized;
            match server.code {
                // NoSuchTransaction: the server ended it, by its time limit or by a restart.
                _ if labelled || server.code == 251 || is_transient_code(server.code) => {
                    Trouble::Again(error.to_string())
                }
                _ if is_final => stop(FailureClass::Final, error.to_string()),
                // TransactionTooLarge, TransactionTooLargeForCache.
                257 | 388 => stop(FailureClass::Final, format!("{error}; say fewer `gather_events`")),
                _ => stop(
                    FailureClass::Final,
                    format!("{error}; transactions need a replica set (of one member, at least)"),
                ),
            }
        }
        Wire::TooLarge(_) | Wire::Encode(_) => stop(FailureClass::Final, error.to_string()),
        _ => Trouble::Again(error.to_string()),
    }
}

/// Whether an error leaves it open if the transaction was committed.
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
