//! Holds one member: its log of commands, the documents and records that follow from it, and its role.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument};
use plimsoll_measure::clock::Instant;

use crate::faulty::commands;
use crate::faulty::flip;
use crate::faulty::store::Store;
use crate::faulty::transaction;
use crate::faulty::{Defects, Options};
use crate::serve::Request;

/// The limit of sessions whose last retryable write a member records. At the limit all are forgotten.
const SESSIONS_MAX: usize = 100_000;

/// One entry of the log. Entries with the same index and term are equal, and so are all entries before them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    term: u64,
    /// The message of the command; none for the entry with which a primary begins its term.
    command: Option<Arc<[u8]>>,
    /// The moment when the primary appended the entry.
    at: Instant,
    /// The documents that the command inserted, or that its commit did.
    pub inserted: Vec<DocumentName>,
    /// The documents that the command updated, or that its commit did.
    pub updated: Vec<DocumentName>,
    /// The session and the number of a retryable write.
    pub write: Option<WriteNumber>,
}

/// The session and the number of a retryable write, or of a transaction's commit.
pub(crate) type WriteNumber = (Box<[u8]>, i64);

/// The last retryable write of a session: its number and its answer.
type Record = (i64, Arc<[u8]>);

/// A member of a replica set.
#[derive(Debug)]
pub(crate) struct Member {
    /// The documents.
    pub store: Store,
    log: Vec<Entry>,
    records: HashMap<Box<[u8]>, Record>,
    memory_bytes_max: u64,
    /// The term in which it was elected, while it believes that it is the primary.
    pub leads: Option<u64>,
    /// Whether its process runs.
    pub is_up: bool,
    /// Whether the other members cannot reach it. Clients can.
    pub is_isolated: bool,
    /// The age of the newest entries that it gets; zero for a member without a delay.
    pub delay_ns: u64,
    /// The number of changes of its view of the set.
    pub view: i64,
    /// The length of its log at the last greeting.
    pub greeted: usize,
}

/// A document by its namespace and `_id`.
pub(crate) type DocumentName = (String, Bson);

impl Member {
    pub fn new(memory_bytes_max: u64) -> Self {
        Self {
            store: store(memory_bytes_max),
            log: Vec::new(),
            records: HashMap::new(),
            memory_bytes_max,
            leads: None,
            is_up: true,
            is_isolated: false,
            delay_ns: 0,
            view: 1,
            greeted: 0,
        }
    }

    /// Whether it takes part in replication and elections.
    pub const fn is_connected(&self) -> bool {
        self.is_up && !self.is_isolated
    }

    /// The number of entries in its log.
    pub const fn len(&self) -> usize {
        self.log.len()
    }

    /// The term of the last entry, and the length of the log: the later of two logs has the larger value.
    pub fn last(&self) -> (u64, usize) {
        self.position(self.log.len())
    }

    /// The term of the entry before a position, and the position.
    pub fn position(&self, position: usize) -> (u64, usize) {
        let before = position.checked_sub(1).and_then(|index| self.log.get(index));
        (before.map_or(0, |entry| entry.term), position)
    }

    /// Appends a command in a term and executes it; returns its answer.
    pub fn append(&mut self, term: u64, command: Option<&[u8]>, at: Instant) -> Arc<[u8]> {
        let request = command.and_then(|bytes| Request::parse(bytes).ok());
        let (inserted, updated) = request.as_ref().map(|it| self.writes(it)).unwrap_or_default();
        let write = request.as_ref().and_then(retryable);
        let mut entry = Entry { term, command: command.map(Into::into), at, inserted, updated, write };
        let answer = self.execute(&entry);
        if !is_ok(&answer) {
            (entry.inserted, entry.updated) = Default::default();
        }
        self.log.push(entry);
        answer
    }

    /// The documents that a command inserts, and those that it updates. A transaction writes with its commit.
    fn writes(&self, request: &Request<'_>) -> (Vec<DocumentName>, Vec<DocumentName>) {
        let namespace = request.namespace().to_string();
        let named = |id: Option<Bson>| id.map(|id| (namespace.clone(), id));
        match request.name {
            "commitTransaction" => {
                let open = transaction::session(request.body).and_then(|session| self.store.open(&session));
                let Some(open) = open else { return Default::default() };
                let name = |(namespace, id): (&String, Option<Bson>)| Some((namespace.clone(), id?));
                let inserted = open.documents.iter().map(|(namespace, it)| (namespace, id_of(it)));
                let updated = open.updates.iter().map(|(namespace, it)| (namespace, target_of(it)));
                (inserted.filter_map(name).collect(), updated.filter_map(name).collect())
            }
            _ if transaction::is_part(request) => Default::default(),
            "insert" => {
                let documents = request.documents("documents");
                (documents.filter_map(|it| named(id_of(it.as_bytes()))).collect(), Vec::new())
            }
            "update" => {
                let updates = request.documents("updates");
                (Vec::new(), updates.filter_map(|it| named(target_of(it.as_bytes()))).collect())
            }
            _ => Default::default(),
        }
    }

    /// Whether a command belongs to a transaction that this member does not have.
    pub fn lacks_transaction(&self, request: &Request<'_>) -> bool {
        let is_open =
            || transaction::session(request.body).is_some_and(|session| self.store.open(&session).is_some());
        transaction::is_part(request)
            && !transaction::starts(request)
            && self.recorded(request).is_none()
            && !is_open()
    }

    /// Whether its log has this write.
    pub fn has(&self, write: &WriteNumber) -> bool {
        self.log.iter().any(|entry| entry.write.as_ref() == Some(write))
    }

    /// The number of entries that are at least this old.
    pub fn len_before(&self, now: Instant, age_ns: u64) -> usize {
        self.log.partition_point(|entry| now.since(entry.at) >= age_ns)
    }

    /// The answer to a retryable write that was executed before.
    pub fn recorded(&self, request: &Request<'_>) -> Option<Arc<[u8]>> {
        let (session, number) = retryable(request)?;
        let (last, answer) = self.records.get(&session)?;
        (*last == number).then(|| answer.clone())
    }

    /// The number of entries that two members share.
    pub fn shared_with(&self, other: &Self) -> usize {
        let len = self.log.len().min(other.log.len());
        let shares = |index: &usize| self.log[index - 1].term == other.log[index - 1].term;
        (1..=len).rev().find(shares).unwrap_or(0)
    }

    /// Removes the entries that `primary` lacks, and adds its entries up to the index `end`. Returns the removed
    /// entries.
    pub fn follow(&mut self, primary: &Self, end: usize) -> Vec<Entry> {
        let shared = self.shared_with(primary);
        let removed = self.log.split_off(shared);
        if !removed.is_empty() {
            self.rebuild();
        }
        for entry in primary.log.get(shared..end).unwrap_or_default() {
            self.execute(entry);
            self.log.push(entry.clone());
        }
        removed
    }

    /// Silently loses a document: the log gets no entry. Returns the document's `_id`.
    pub fn lose(&mut self, namespace: &str, position: usize) -> Option<Bson> {
        id_of(&self.store.collections.get_mut(namespace)?.remove(position)?)
    }

    /// Silently flips a bit of a document: the log gets no entry. Returns the document's `_id`.
    pub fn flip(&mut self, namespace: &str, position: usize) -> Option<Bson> {
        let collection = self.store.collections.get_mut(namespace)?;
        let mut document: Box<[u8]> = collection.get(position)?.into();
        let (byte, mask) = flip::choose(&document, position as u64)?;
        document[byte] ^= mask;
        let id = id_of(&document);
        collection.replace(position, document);
        id
    }

    /// Stores a document, and adds no entry to the log.
    pub fn plant(&mut self, namespace: &str, document: &[u8]) {
        // An existing document stays.
        self.store.insert(namespace, document).unwrap_or_default();
    }

    /// Removes a document, and adds no entry to the log.
    pub fn uproot(&mut self, namespace: &str, id: &Bson) {
        let Some(collection) = self.store.collections.get_mut(namespace) else { return };
        collection.position_of(id).and_then(|position| collection.remove(position));
    }

    /// Executes the whole log again, on an empty store.
    fn rebuild(&mut self) {
        self.store = store(self.memory_bytes_max);
        self.records.clear();
        for entry in std::mem::take(&mut self.log) {
            self.execute(&entry);
            self.log.push(entry);
        }
    }

    fn execute(&mut self, entry: &Entry) -> Arc<[u8]> {
        let request = entry.command.as_deref().and_then(|bytes| Request::parse(bytes).ok());
        let Some(request) = request else {
            // A new primary aborts the open transactions.
            self.store.abort_all();
            return Arc::default();
        };
        let mut answer = Vec::new();
        commands::answer(&mut self.store, &request, &mut answer);
        let answer: Arc<[u8]> = answer.into();
        if let Some((session, number)) = retryable(&request) {
            if self.records.len() >= SESSIONS_MAX {
                self.records.clear();
            }
            self.records.insert(session, (number, answer.clone()));
        }
        answer
    }
}

fn id_of(document: &[u8]) -> Option<Bson> {
    Bson::try_from(RawDocument::from_bytes(document).ok()?.get("_id").ok()??).ok()
}

/// The `_id` in the filter of an update.
fn target_of(statement: &[u8]) -> Option<Bson> {
    let filter = RawDocument::from_bytes(statement).ok()?.get_document("q").ok()?;
    Bson::try_from(filter.get("_id").ok()??).ok()
}

/// Whether a command was executed and changed a document, or has no count.
fn is_ok(answer: &[u8]) -> bool {
    let answer = Document::from_reader(answer).unwrap_or_default();
    answer.get_f64("ok").is_ok_and(|ok| ok == 1.0) && answer.get_i32("n").unwrap_or(1) > 0
}

/// The session and the number of a retryable write, or of the commit of a transaction.
pub(super) fn retryable(request: &Request<'_>) -> Option<WriteNumber> {
    if transaction::is_part(request) && request.name != "commitTransaction" {
        return None;
    }
    let session = request.body.get_document("lsid").ok()?;
    Some((session.as_bytes().into(), request.body.get_i64("txnNumber").ok()?))
}

fn store(memory_bytes_max: u64) -> Store {
    Store::new(Options { defects: Defects::default(), memory_bytes_max })
}
