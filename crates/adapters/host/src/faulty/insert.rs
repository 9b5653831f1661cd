//! Executes `insert`: stores documents, returns write errors.

use bson::{Bson, Document, RawDocument, doc};

use super::store::{Refusal, Store};
use crate::serve::{DOCUMENT_LEN_MAX, Request, reply};

/// MongoDB's error code for an `_id` that exists.
const DUPLICATE_KEY: i32 = 11000;
/// MongoDB's error code for an operation that needs too much memory.
const EXCEEDED_MEMORY_LIMIT: i32 = 146;
/// MongoDB's error code for a document that is too large.
const OBJECT_TOO_LARGE: i32 = 10334;

/// The limit of write errors in one answer. Further documents still count as not inserted.
const ERRORS_MAX: usize = 100_000;

pub(crate) fn insert(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let namespace = request.namespace().to_string();
    let ordered = request.body.get_bool("ordered").unwrap_or(true);
    let mut inserted = 0;
    let mut errors = Vec::new();
    for (index, document) in request.documents("documents").enumerate() {
        match insert_one(store, &namespace, document) {
            Ok(()) => inserted += 1,
            Err((code, message)) => {
                errors.push(write_error(index, code, &message, document));
                if ordered || errors.len() >= ERRORS_MAX {
                    break;
                }
            }
        }
    }
    answer(out, inserted, errors);
}

fn insert_one(store: &mut Store, namespace: &str, document: &RawDocument) -> Result<(), (i32, String)> {
    let document = document.as_bytes();
    if document.len() > DOCUMENT_LEN_MAX {
        let message = format!("a document of {} bytes is above {DOCUMENT_LEN_MAX} bytes", document.len());
        return Err((OBJECT_TOO_LARGE, message));
    }
    store.insert(namespace, document).map_err(|refusal| match refusal {
        Refusal::Duplicate => {
            (DUPLICATE_KEY, format!("E11000 duplicate key error collection: {namespace} index: _id_"))
        }
        Refusal::Full => {
            let limit = store.memory_bytes_max();
            (EXCEEDED_MEMORY_LIMIT, format!("the faulty server's memory limit of {limit} bytes is reached"))
        }
    })
}

fn write_error(index: usize, code: i32, message: &str, document: &RawDocument) -> Document {
    let index = i32::try_from(index).unwrap_or(i32::MAX);
    let mut error = doc! { "index": index, "code": code, "errmsg": message };
    if code == DUPLICATE_KEY {
        let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
        error.extend(doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": id } });
    }
    error
}

fn answer(out: &mut Vec<u8>, inserted: usize, errors: Vec<Document>) {
    if errors.is_empty() {
        return reply::counted(out, inserted);
    }
    let inserted = i32::try_from(inserted).unwrap_or(i32::MAX);
    match (doc! { "n": inserted, "writeErrors": errors, "ok": 1.0 }).to_vec() {
        Ok(bytes) => out.extend_from_slice(&bytes),
        Err(error) => reply::error(out, 1, "InternalError", &error.to_string()),
    }
}
