//! Holds one member: its log of commands, the documents and records that follow from it, and its role.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, RawDocument};

use crate::faulty::commands;
use crate::faulty::flip;
use crate::faulty::store::Store;
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
}

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
    pub fn append(&mut self, term: u64, command: Option<&[u8]>) -> Arc<[u8]> {
        let entry = Entry { term, command: command.map(Into::into) };
        let answer = self.execute(&entry);
        self.log.push(entry);
        answer
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

    /// Removes the entries that `primary` lacks, and adds its entries up to the index `end`. Returns the documents of removed
    /// inserts.
    pub fn follow(&mut self, primary: &Self, end: usize) -> Vec<DocumentName> {
        let shared = self.shared_with(primary);
        let removed = self.log.split_off(shared);
        if !removed.is_empty() {
            self.rebuild();
        }
        for entry in primary.log.get(shared..end).unwrap_or_default() {
            self.execute(entry);
            self.log.push(entry.clone());
        }
        removed.iter().flat_map(inserted).collect()
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
        let Some(request) = request else { return Arc::default() };
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

/// The session and the number of a retryable write.
pub(super) fn retryable(request: &Request<'_>) -> Option<(Box<[u8]>, i64)> {
    let session = request.body.get_document("lsid").ok()?;
    Some((session.as_bytes().into(), request.body.get_i64("txnNumber").ok()?))
}

/// The documents of an entry, if it is an insert.
fn inserted(entry: &Entry) -> Vec<DocumentName> {
    let request = entry.command.as_deref().and_then(|bytes| Request::parse(bytes).ok());
    let Some(request) = request.filter(|request| request.name == "insert") else { return Vec::new() };
    let namespace = request.namespace().to_string();
    let ids = request.documents("documents").filter_map(|it| Bson::try_from(it.get("_id").ok()??).ok());
    ids.map(|id| (namespace.clone(), id)).collect()
}

fn store(memory_bytes_max: u64) -> Store {
    Store::new(Options { defects: Defects::default(), memory_bytes_max })
}
