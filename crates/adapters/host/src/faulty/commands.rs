//! Executes the commands of a faulty server.

use bson::raw::RawBsonRef;
use bson::{RawDocument, rawdoc};

use super::cursor::Cursor;
use super::filter::Filter;
use super::index;
use super::insert;
use super::store::Store;
use super::transaction;
use super::update;
use crate::serve::reply::{self, Batch};
use crate::serve::{Request, common};

/// The number of documents in the first batch of a find without a batch size, as in MongoDB.
const FIRST_BATCH: u64 = 101;
/// The limit of open cursors.
const CURSORS_MAX: usize = 10_000;

/// Answers one command.
pub(crate) fn answer(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    match request.name {
        "insert" if transaction::is_part(request) => transaction::insert(store, request, out),
        "update" if transaction::is_part(request) => transaction::update(store, request, out),
        "commitTransaction" => transaction::commit(store, request, out),
        "abortTransaction" => transaction::abort(store, request, out),
        "insert" => insert::insert(store, request, out),
        "update" => update::update(store, request, out),
        "find" => find(store, request, out),
        "getMore" => get_more(store, request, out),
        "killCursors" => kill_cursors(store, request, out),
        "count" => count(store, request, out),
        "create" => create(store, request, out),
        "drop" => drop_collection(store, request, out),
        "createIndexes" => index::create(store, request, out),
        "listIndexes" => index::list(store, request, out),
        "listCollections" => list_collections(store, request, out),
        _ => common::answer(request, "faulty server", out),
    }
}

fn find(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let body = request.body;
    let Some(filter) = filter(body, "filter") else { return refuse(out, "this filter") };
    if let Some(option) = ["sort", "skip"].iter().find(|option| is_set(body, option)) {
        return refuse(out, option);
    }
    let limit = number(body, "limit").filter(|&limit| limit > 0).unwrap_or(u64::MAX);
    let Ok(hint) = index::hint(body) else { return refuse(out, "this hint") };
    let namespace = request.namespace().to_string();
    let is_known = |name: &String| store.collections.get(&namespace).is_none_or(|it| it.has_index(name));
    if !hint.as_ref().is_none_or(is_known) {
        return reply::error(out, 2, "BadValue", "hint provided does not correspond to an existing index");
    }
    if let Filter::Key(key) = &filter
        && let Some(stale) = store.stale(&namespace, key, request.connection)
    {
        let mut batch = Batch::begin(out, "firstBatch");
        batch.push(&stale);
        return batch.finish(0, request.namespace());
    }
    let only_id = match body.get_document("projection").map(|fields| *fields == *rawdoc! {"_id": 1}) {
        Ok(true) => true,
        Ok(false) if is_set(body, "projection") => return refuse(out, "this projection"),
        _ => false,
    };
    let mut cursor = Cursor::new(namespace, filter, limit);
    (cursor.hint, cursor.only_id) = (hint, only_id);
    let single = body.get_bool("singleBatch").unwrap_or(false);
    let count_max = number(body, "batchSize").unwrap_or(FIRST_BATCH);
    batch(store, cursor, None, count_max, single, out);
}

/// Answers with the next batch of a cursor. If documents remain, keeps the cursor under the number `id`, or
/// under a new number if `id` is `None`.
fn batch(
    store: &mut Store,
    mut cursor: Cursor,
    id: Option<i64>,
    count_max: u64,
    single: bool,
    out: &mut Vec<u8>,
) {
    let mut batch = Batch::begin(out, if id.is_some() { "nextBatch" } else { "firstBatch" });
    let collection = store.collections.get(&cursor.namespace);
    let more = collection.is_some_and(|collection| cursor.fill(collection, count_max, &mut batch));
    let namespace = cursor.namespace.clone();
    let (database, collection) = namespace.split_once('.').unwrap_or((&namespace, ""));
    let id = if more && !single { keep(store, cursor, id) } else { 0 };
    batch.finish(id, crate::serve::Namespace { database, collection });
}

/// Keeps a cursor and returns its number. At the limit, all cursors are closed: their clients are presumed
/// gone.
fn keep(store: &mut Store, cursor: Cursor, id: Option<i64>) -> i64 {
    if store.cursors.len() >= CURSORS_MAX {
        store.cursors.clear();
    }
    let id = id.unwrap_or_else(|| {
        store.cursors_opened += 1;
        store.cursors_opened
    });
    store.cursors.insert(id, cursor);
    id
}

fn get_more(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let id = number(request.body, "getMore").and_then(|id| i64::try_from(id).ok()).unwrap_or_default();
    let Some(cursor) = store.cursors.remove(&id) else {
        return reply::error(out, 43, "CursorNotFound", &format!("cursor id {id} not found"));
    };
    let count_max = number(request.body, "batchSize").filter(|&count| count > 0).unwrap_or(u64::MAX);
    batch(store, cursor, Some(id), count_max, false, out);
}

fn kill_cursors(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let ids = request.body.get_array("cursors").into_iter().flatten();
    for id in ids.filter_map(|id| id.ok()?.as_i64()) {
        store.cursors.remove(&id);
    }
    reply::ok(out);
}

fn count(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let Some(filter) = filter(request.body, "query") else { return refuse(out, "this query") };
    let collection = store.collections.get(&request.namespace().to_string());
    reply::counted(out, collection.map_or(0, |collection| filter.count_in(collection)));
}

fn create(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let namespace = request.namespace().to_string();
    if store.collections.contains_key(&namespace) {
        return reply::error(out, 48, "NamespaceExists", &format!("collection {namespace} already exists"));
    }
    store.create(&namespace);
    reply::ok(out);
}

fn drop_collection(store: &mut Store, request: &Request<'_>, out: &mut Vec<u8>) {
    if store.drop_collection(&request.namespace().to_string()) {
        reply::ok(out);
    } else {
        reply::error(out, 26, "NamespaceNotFound", "ns not found");
    }
}

fn list_collections(store: &Store, request: &Request<'_>, out: &mut Vec<u8>) {
    let mut namespace = request.namespace();
    let prefix = format!("{}.", namespace.database);
    let only = request.body.get_document("filter").ok().and_then(|filter| filter.get_str("name").ok());
    let mut batch = Batch::begin(out, "firstBatch");
    let names = store.collections.keys().filter_map(|name| name.strip_prefix(&prefix));
    for name in names.filter(|name| only.is_none_or(|only| only == *name)) {
        batch.push(rawdoc! { "name": name, "type": "collection" }.as_bytes());
    }
    namespace.collection = "$cmd.listCollections";
    batch.finish(0, namespace);
}

/// Answers with MongoDB's error NotImplemented: a wrong answer would be a defect that the log does not
/// contain.
fn refuse(out: &mut Vec<u8>, what: &str) {
    let message = format!(
        "the faulty server does not support {what}: it finds all documents, by _id, or by a range of ObjectIds"
    );
    reply::error(out, 238, "NotImplemented", &message);
}

fn filter(body: &RawDocument, field: &str) -> Option<Filter> {
    match body.get_document(field) {
        Ok(filter) => Filter::parse(filter).ok(),
        Err(_) => Some(Filter::All),
    }
}

/// Whether an option is present and is not empty, zero or null.
fn is_set(body: &RawDocument, field: &str) -> bool {
    match body.get(field) {
        Ok(Some(RawBsonRef::Document(value))) => value.iter().next().is_some(),
        Ok(Some(RawBsonRef::Null)) => false,
        Ok(Some(_)) => number(body, field) != Some(0),
        _ => false,
    }
}

/// A field's non-negative number, of any numeric type.
fn number(body: &RawDocument, field: &str) -> Option<u64> {
    match body.get(field).ok()?? {
        RawBsonRef::Int32(number) => u64::try_from(number).ok(),
        RawBsonRef::Int64(number) => u64::try_from(number).ok(),
        RawBsonRef::Double(number) => Some(number as u64),
        _ => None,
    }
}
