//! Answers the commands of one mongos: selects the shards, sends them their parts, and merges their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::Options;
use super::catalogue::{Catalogue, Sharded};
use super::shard::Shard;
use crate::faulty::transaction;
use crate::replica_set::service::append;
use crate::serve::{Request, Service, common};

/// The limit of open cursors. At the limit all are closed: their clients are presumed gone.
const CURSORS_MAX: usize = 10_000;

/// The limit of sessions with transactions.
const TRANSACTIONS_MAX: usize = 10_000;

/// An address at which nothing listens.
const UNREACHABLE: &str = "127.0.0.1:1";

/// One mongos of a simulated cluster.
#[derive(Debug)]
pub(super) struct Router {
    pub shards: Arc<Vec<Shard>>,
    pub catalogue: Arc<Mutex<Catalogue>>,
    cursors: Mutex<HashMap<i64, Cursor>>,
    cursors_opened: AtomicU64,
    /// The shards of each session's last transaction.
    transactions: Mutex<HashMap<Box<[u8]>, Vec<usize>>>,
    /// The number of received commands, without greetings.
    pub commands: AtomicU64,
    /// Whether finds return documents that another shard owns.
    shows_orphans: bool,
    /// Whether the router lists addresses of shards that clients cannot reach.
    is_private: bool,
}

/// The open cursors of a find: the index of each shard, and the number of its cursor.
#[derive(Debug)]
struct Cursor {
    shards: Vec<(usize, i64)>,
}

impl Service for Router {
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        if !matches!(request.name, "hello" | "isMaster" | "ismaster") {
            self.commands.fetch_add(1, Ordering::Relaxed);
        }
        match self.respond(request) {
            Some(answer) => append(out, &answer),
            None => common::answer(request, "simulated mongos", out),
        }
    }
}

impl Router {
    pub fn new(shards: Arc<Vec<Shard>>, catalogue: Arc<Mutex<Catalogue>>, options: &Options) -> Self {
        let (cursors, cursors_opened, commands, transactions) = Default::default();
        let Options { shows_orphans, is_private, .. } = *options;
        Self { shards, catalogue, cursors, cursors_opened, transactions, commands, shows_orphans, is_private }
    }

    fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        self.catalogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursors(&self) -> MutexGuard<'_, HashMap<i64, Cursor>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a command; none for commands that every server answers alike.
    fn respond(&self, request: &Request<'_>) -> Option<Document> {
        if transaction::starts(request) {
            self.begin(request);
        }
        Some(match request.name {
            "hello" | "isMaster" | "ismaster" => greeting(),
            "insert" => self.insert(request),
            "find" => self.find(request),
            "getMore" => self.get_more(request),
            "killCursors" => self.kill_cursors(request),
            "count" => self.sum(request, self.targets(request, "query")),
            "update" => self.sum(request, self.targets_of_updates(request)),
            "commitTransaction" | "abortTransaction" => self.end(request),
            "create" | "listCollections" | "listIndexes" => self.shards[0].ask(&whole(request)),
            "drop" => self.drop_collection(request),
            "listShards" => {
                let shards: Vec<_> = self.shards.iter().map(|shard| self.listed(shard)).collect();
                doc! {"shards": shards, "ok": 1.0}
            }
            "enableSharding" => doc! {"ok": 1.0},
            "shardCollection" | "split" | "moveChunk" => self.administer(request),
            _ => return None,
        })
    }

    fn listed(&self, shard: &Shard) -> Document {
        let members = if self.is_private { UNREACHABLE.to_owned() } else { shard.set.names.join(",") };
        doc! {"_id": &shard.name, "host": format!("{}/{members}", shard.set.set_name), "state": 1}
    }

    /// Shards a collection, splits a chunk, or moves one. Only an empty collection's chunks are moved.
    fn administer(&self, request: &Request<'_>) -> Document {
        let command = whole(request);
        let namespace = command.get_str(request.name).unwrap_or_default().to_owned();
        let document = |field: &str| command.get_document(field).cloned().unwrap_or_default();
        if request.name == "shardCollection" {
            let sharded = Sharded::new(&document("key"));
            self.catalogue().collections.insert(namespace, sharded);
            return doc! {"ok": 1.0};
        }
        let to = command.get_str("to").ok().map(|to| self.shards.iter().position(|shard| shard.name == to));
        if to.is_some() && self.holds_documents(&namespace) {
            return refusal(
                238,
                "NotImplemented",
                "the simulated mongos moves only chunks of an empty collection",
            );
        }
        match (self.catalogue().collections.get_mut(&namespace), to) {
            (None, _) => refusal(118, "NamespaceNotSharded", "the collection is not sharded"),
            (Some(_), Some(None)) => refusal(70, "ShardNotFound", "no shard has this name"),
            (Some(sharded), Some(Some(shard))) => {
                sharded.assign(&document("find"), shard);
                doc! {"ok": 1.0}
            }
            (Some(sharded), None) => {
                sharded.split(&document("middle"));
                doc! {"ok": 1.0}
            }
        }
    }

    fn holds_documents(&self, namespace: &str) -> bool {
        let Some((database, collection)) = namespace.split_once('.') else { return false };
        let count = doc! {"count": collection, "$db": database};
        self.shards.iter().any(|shard| shard.ask(&count).get_i32("n").unwrap_or(0) > 0)
    }

    /// Sends each document to its shard. Unlike in MongoDB, an ordered insert does not stop the inserts of other shards.
    fn insert(&self, request: &Request<'_>) -> Document {
        let namespace = request.namespace().to_string();
        let mut parts = vec![(Vec::new(), Vec::new()); self.shards.len()];
        for (index, document) in request.documents("documents").enumerate() {
            let catalogue = self.catalogue();
            let sharded = catalogue.collections.get(&namespace);
            let owner = sharded.map_or(0, |sharded| sharded.owner(document, self.shards.len()));
            parts[owner].0.push(index);
            parts[owner].1.extend(Document::try_from(document).ok());
        }
        let mut merged = doc! {"n": 0, "ok": 1.0};
        let parts = parts.into_iter().enumerate().filter(|(_, (indexes, _))| !indexes.is_empty());
        for (shard, (indexes, documents)) in parts {
            let mut command = Document::try_from(request.body).unwrap_or_default();
            command.insert("documents", documents);
            let answer = self.ask(shard, request, command);
            if !is_ok(&answer) {
                return answer;
            }
            merge(&mut merged, answer, Some(&indexes));
        }
        merged
    }

    /// Sends a command to shards and adds up their counts.
    fn sum(&self, request: &Request<'_>, targets: Vec<usize>) -> Document {
        let (command, mut merged) = (whole(request), doc! {"n": 0, "ok": 1.0});
        for shard in targets {
            let answer = self.ask(shard, request, command.clone());
            if !is_ok(&answer) {
                return answer;
            }
            merge(&mut merged, answer, None);
        }
        merged
    }

    /// Forgets the shards of the session's earlier transaction. At the limit all are forgotten: their clients are presumed gone.
    fn begin(&self, request: &Request<'_>) {
        let mut transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
        if transactions.len() >= TRANSACTIONS_MAX {
            transactions.clear();
        }
        transaction::session(request.body).into_iter().for_each(|session| {
            transactions.insert(session, Vec::new());
        });
    }

    /// Sends a command to a shard. The first write of a transaction on a shard begins it there.
    fn ask(&self, shard: usize, request: &Request<'_>, mut command: Document) -> Document {
        let session = transaction::session(request.body).filter(|_| transaction::is_part(request));
        if let Some(session) = session {
            let mut transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
            let shards = transactions.entry(session).or_default();
            command.remove("startTransaction");
            if !shards.contains(&shard) {
                shards.push(shard);
                command.insert("startTransaction", true);
            }
        }
        self.shards[shard].ask(&command)
    }

    /// Commits or aborts a transaction on one of its shards after the other. Unlike in MongoDB, where each shard first promises the
    /// commit, a shard that still has the transaction may lose it before its turn.
    fn end(&self, request: &Request<'_>) -> Document {
        let transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
        let shards =
            transaction::session(request.body).and_then(|session| transactions.get(&session).cloned());
        drop(transactions);
        let Some(shards) = shards else {
            return refusal(251, "NoSuchTransaction", "the transaction is not known here");
        };
        let (command, mut merged) = (whole(request), doc! {"ok": 1.0});
        if !shards.iter().all(|shard| self.shards[*shard].has_transaction(&command)) {
            let mut refused = refusal(251, "NoSuchTransaction", "a shard does not have the transaction");
            refused.insert("errorLabels", ["TransientTransactionError"]);
            return refused;
        }
        for shard in shards {
            let answer = self.shards[shard].ask(&command);
            if !is_ok(&answer) {
                return answer;
            }
            merge(&mut merged, answer, None);
        }
        merged
    }

    /// The shards that a command's filter selects. A collection that is not sharded is on the first shard.
    fn targets(&self, request: &Request<'_>, field: &str) -> Vec<usize> {
        let everything = rawdoc! {};
        let filter = request.body.get_document(field).unwrap_or(&everything);
        self.targets_of(&request.namespace().to_string(), filter)
    }

    fn targets_of_updates(&self, request: &Request<'_>) -> Vec<usize> {
        let namespace = request.namespace().to_string();
        let filters = request.documents("updates").filter_map(|update| update.get_document("q").ok());
        let mut targets: Vec<usize> =
            filters.flat_map(|filter| self.targets_of(&namespace, filter)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    fn targets_of(&self, namespace: &str, filter: &RawDocument) -> Vec<usize> {
        let catalogue = self.catalogue();
        let sharded = catalogue.collections.get(namespace);
        sharded.map_or_else(|| vec![0], |sharded| sharded.targets(filter, self.shards.len()))
    }

    /// Sends a find to its shards; the first batches come back together.
    fn find(&self, request: &Request<'_>) -> Document {
        let (command, mut documents, mut open) = (whole(request), Vec::new(), Vec::new());
        for shard in self.targets(request, "filter") {
            let mut answer = self.shards[shard].ask(&command);
            let Some((id, batch)) = taken(&mut answer, "firstBatch") else { return answer };
            documents.extend(self.owned(&request.namespace().to_string(), shard, batch));
            open.extend((id != 0).then_some((shard, id)));
        }
        let limit = command.get_i32("limit").ok().and_then(|limit| usize::try_from(limit).ok());
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            documents.truncate(limit);
        }
        let id = self.keep(open);
        batch("firstBatch", documents, id, request)
    }

    /// Removes the orphans from a shard's documents: those that another shard owns. Keeps documents that lack
    /// a field of the shard key.
    fn owned(&self, namespace: &str, shard: usize, documents: Vec<Bson>) -> Vec<Bson> {
        let catalogue = self.catalogue();
        let sharded = catalogue.collections.get(namespace).filter(|_| !self.shows_orphans);
        let Some(sharded) = sharded else { return documents };
        let is_owned = |document: &Bson| {
            let raw = document.as_document().and_then(|document| RawDocumentBuf::try_from(document).ok());
            raw.is_none_or(|raw| !sharded.has_key(&raw) || sharded.owner(&raw, self.shards.len()) == shard)
        };
        documents.into_iter().filter(is_owned).collect()
    }

    fn get_more(&self, request: &Request<'_>) -> Document {
        let id = request.body.get_i64("getMore").unwrap_or_default();
        let Some(mut cursor) = self.cursors().remove(&id) else {
            return refusal(43, "CursorNotFound", "cursor not found");
        };
        let mut documents = Vec::new();
        if let Some((shard, id)) = cursor.shards.pop() {
            let mut command = whole(request);
            command.insert("getMore", id);
            let mut answer = self.shards[shard].ask(&command);
            let Some((id, batch)) = taken(&mut answer, "nextBatch") else { return answer };
            let collection = request.body.get_str("collection").unwrap_or_default();
            let database = request.body.get_str("$db").unwrap_or_default();
            documents = self.owned(&format!("{database}.{collection}"), shard, batch);
            cursor.shards.extend((id != 0).then_some((shard, id)));
        }
        let left = if cursor.shards.is_empty() { 0 } else { id };
        if left != 0 {
            self.cursors().insert(id, cursor);
        }
        let database = request.body.get_str("$db").unwrap_or_default();
        let collection = request.body.get_str("collection").unwrap_or_default();
        let namespace = format!("{database}.{collection}");
        doc! {"cursor": {"nextBatch": documents, "id": left, "ns": namespace}, "ok": 1.0}
    }

    /// Keeps open cursors under a new number; 0 without open cursors.
    fn keep(&self, shards: Vec<(usize, i64)>) -> i64 {
        if shards.is_empty() {
            return 0;
        }
        let mut cursors = self.cursors();
        if cursors.len() >= CURSORS_MAX {
            cursors.clear();
        }
        let id = self.cursors_opened.fetch_add(1, Ordering::Relaxed).cast_signed() + 1;
        cursors.insert(id, Cursor { shards });
        id
    }

    fn kill_cursors(&self, request: &Request<'_>) -> Document {
        let ids = request.body.get_array("cursors").into_iter().flatten();
        for id in ids.filter_map(|id| id.ok()?.as_i64()) {
            self.cursors().remove(&id);
        }
        doc! {"ok": 1.0}
    }

    fn drop_collection(&self, request: &Request<'_>) -> Document {
        self.catalogue().collections.remove(&request.namespace().to_string());
        let command = whole(request);
        let answers: Vec<_> = self.shards.iter().map(|shard| shard.ask(&command)).collect();
        let dropped = answers.iter().find(|answer| is_ok(answer)).or(answers.first());
        dropped.cloned().unwrap_or_default()
    }
}

fn greeting() -> Document {
    let mut greeting = Document::try_from(common::description()).unwrap_or_default();
    greeting.insert("msg", "isdbgrid");
    greeting
}

/// The command as one document: its updates and deletes are moved from document sections into the body.
fn whole(request: &Request<'_>) -> Document {
    let mut command = Document::try_from(request.body).unwrap_or_default();
    for section in ["updates", "deletes"] {
        let documents = request.documents(section).filter_map(|it| Document::try_from(it).ok());
        let documents: Vec<_> = documents.collect();
        if !documents.is_empty() {
            command.insert(section, documents);
        }
    }
    command
}

/// Adds the answer of one shard. `indexes` are the positions of the shard's documents in the whole command.
fn merge(merged: &mut Document, answer: Document, indexes: Option<&[usize]>) {
    for (key, value) in answer {
        match (key.as_str(), value) {
            ("n" | "nModified", Bson::Int32(count)) => {
                let sum = merged.get_i32(&key).unwrap_or(0) + count;
                merged.insert(key, sum);
            }
            ("writeErrors", Bson::Array(errors)) => {
                let mut all = merged.get_array("writeErrors").cloned().unwrap_or_default();
                all.extend(errors.into_iter().map(|error| placed(error, indexes)));
                merged.insert(key, all);
            }
            ("writeConcernError" | "errorLabels", value) => {
                merged.insert(key, value);
            }
            _ => {}
        }
    }
}

/// A write error with the index of its document in the whole command.
fn placed(error: Bson, indexes: Option<&[usize]>) -> Bson {
    let Bson::Document(mut error) = error else { return error };
    let index = error.get_i32("index").ok().and_then(|index| usize::try_from(index).ok());
    let place = index.zip(indexes).and_then(|(index, indexes)| indexes.get(index));
    if let Some(place) = place.and_then(|place| i32::try_from(*place).ok()) {
        error.insert("index", place);
    }
    Bson::Document(error)
}

fn is_ok(answer: &Document) -> bool {
    answer.get_f64("ok").is_ok_and(|ok| ok == 1.0)
}

/// The cursor's number and the documents of an answer; none if it is an error.
fn taken(answer: &mut Document, name: &str) -> Option<(i64, Vec<Bson>)> {
    let cursor = answer.get_document_mut("cursor").ok()?;
    let documents = cursor.get_array_mut(name).map(std::mem::take).unwrap_or_default();
    Some((cursor.get_i64("id").unwrap_or(0), documents))
}

fn batch(name: &str, documents: Vec<Bson>, id: i64, request: &Request<'_>) -> Document {
    doc! {"cursor": {name: documents, "id": id, "ns": request.namespace().to_string()}, "ok": 1.0}
}

fn refusal(code: i32, name: &str, message: &str) -> Document {
    doc! {"ok": 0.0, "code": code, "codeName": name, "errmsg": message}
}
