//! Reads documents, numbers and failures from the replies of a server.

use bson::RawDocument;

/// DuplicateKey: a document with this key exists.
pub const DUPLICATE_KEY: i32 = 11000;

/// The documents in the first batch of a cursor. `None` if the reply has no cursor.
pub fn documents(reply: &RawDocument) -> Option<impl Iterator<Item = Option<&RawDocument>>> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    Some(batch.into_iter().map(|value| value.ok()?.as_document()))
}

/// The first document of a cursor.
pub fn first(reply: &RawDocument) -> Option<&RawDocument> {
    documents(reply)?.next()?
}

/// An integer of either width, or a double.
pub fn number(document: &RawDocument, key: &str) -> Option<i64> {
    let value = document.get(key).ok()??;
    let double = value.as_f64().filter(|value| value.fract() == 0.0).map(|value| value as i64);
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).or(double)
}

/// The first write error, or the write concern error, of a reply with `ok: 1`.
pub fn server_error(reply: &RawDocument) -> Option<&RawDocument> {
    let first = || reply.get_array("writeErrors").ok()?.into_iter().next()?.ok()?.as_document();
    first().or_else(|| reply.get_document("writeConcernError").ok())
}

/// The message of the error that [`server_error`] finds.
pub fn failure(reply: &RawDocument) -> Option<String> {
    server_error(reply).map(|error| words(error).to_owned())
}

/// The message of an error.
pub fn words(error: &RawDocument) -> &str {
    error.get_str("errmsg").unwrap_or("no reason was given")
}
