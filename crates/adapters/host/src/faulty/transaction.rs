//! Executes transactions of inserts and updates: keeps them until the commit, and then executes all of them, or one half of
//! the inserts.

use bson::{RawDocument, doc, rawdoc};

use super::store::{Commit, Open, Store};
use super::update::{self, WRITE_CONCERN_FAILED};
use crate::serve::{Request, reply};

/// MongoDB's error code for a write conflict.
const WRITE_CONFLICT: i32 = 112;

/// Whether a command is part of a transaction.
pub(crate) fn is_part(request: &Request<'_>) -> bool {
    matches!(request.body.get_bool("autocommit"), Ok(false))
}

/// Keeps the documents of an insert until the commit.
pub(crate) fn insert(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let Some(session) = session(request.body) else { return no_session(out) };
    let namespace = request.namespace().to_string();
    let documents = request.documents("documents").map(|it| (namespace.clone(), it.as_bytes().into()));
    let documents: Vec<_> = documents.collect();
    reply::counted(out, documents.len());
    store.keep(session, starts(request), Open { documents, ..Open::default() });
}

/// Keeps updates by `_id` until the commit.
pub(crate) fn update(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let Some(session) = session(request.body) else { return no_session(out) };
    let namespace = request.namespace().to_string();
    let matched = request.documents("updates").map(|statement| update::matched(store, &namespace, statement));
    match matched.sum::<Result<usize, _>>() {
        Ok(count) => {
            reply::modified(out, count);
            let updates = request.documents("updates").map(|it| (namespace.clone(), it.as_bytes().into()));
            let updates = updates.collect();
            store.keep(session, starts(request), Open { updates, ..Open::default() });
        }
        Err(refused) => update::refuse(refused, out),
    }
}

/// Whether a command begins a transaction.
pub(crate) fn starts(request: &Request<'_>) -> bool {
    request.body.get_bool("startTransaction").unwrap_or(false)
}

/// Commits a transaction. If only its first half was stored, the answer leaves the outcome unknown, as a lost
/// answer does.
pub(crate) fn commit(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let Some(session) = session(request.body) else { return no_session(out) };
    let (commit, updates) = store.commit(&session);
    for (namespace, statement) in &updates {
        update::execute(store, (namespace, request.connection), statement);
    }
    match commit {
        Commit::Whole => reply::ok(out),
        Commit::Half => reply::append(
            out,
            &rawdoc! {
                "ok": 1.0,
                "writeConcernError": { "code": WRITE_CONCERN_FAILED, "errmsg": "waiting for replication timed out" },
            },
        ),
        Commit::Refused => refuse(out),
    }
}

/// Forgets the documents of a transaction.
pub(crate) fn abort(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    session(request.body).into_iter().for_each(|session| store.abort(&session));
    reply::ok(out);
}

fn refuse(out: &mut Vec<u8>) {
    let answer = doc! {
        "ok": 0.0, "code": WRITE_CONFLICT, "codeName": "WriteConflict",
        "errmsg": "a document exists already, or the memory limit is reached",
        "errorLabels": ["TransientTransactionError"],
    };
    match answer.to_vec() {
        Ok(bytes) => out.extend_from_slice(&bytes),
        Err(error) => reply::error(out, 1, "InternalError", &error.to_string()),
    }
}

fn no_session(out: &mut Vec<u8>) {
    reply::error(out, 72, "InvalidOptions", "a transaction needs a session: send lsid");
}

/// The bytes of the session's identifier.
pub(crate) fn session(body: &RawDocument) -> Option<Box<[u8]>> {
    body.get_document("lsid").ok().map(|session| session.as_bytes().into())
}
