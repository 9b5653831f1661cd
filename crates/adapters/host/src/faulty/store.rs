//! Holds the state of a faulty server: collections, cursors, and the log of its defects.

use std::collections::{BTreeMap, HashMap};

use bson::oid::ObjectId;
use bson::{Bson, RawDocument};
use plimsoll_element::kind;

use super::collection::{self, Collection};
use super::cursor::Cursor;
use super::{DamagedDocument, DefectLog, Defects, Duplicate, Flip, Options, flip};

/// The cost of one entry of the defect log without its `_id`, in bytes.
const RECORD_COST: u64 = 160;

/// A document or an update statement of an open transaction, with its namespace.
pub(crate) type Kept = (String, Box<[u8]>);

/// The writes of an open transaction.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) documents: Vec<Kept>,
    pub(crate) updates: Vec<Kept>,
}

/// The namespace and the key of a document.
type Place = (String, Box<[u8]>);
/// A document before its last update, and the connection that sent the update.
type Previous = (Box<[u8]>, u64);

/// The limit of documents whose version before their last update is remembered.
const PREVIOUS_MAX: usize = 100_000;

/// The limit of open transactions.
const TRANSACTIONS_MAX: usize = 10_000;

/// The state of a faulty server, which all connections share.
#[derive(Debug)]
pub(crate) struct Store {
    options: Options,
    used_bytes: u64,
    inserted: u64,
    updated: u64,
    /// The last updated documents as they were before the update, and the connection that sent the update.
    previous: HashMap<Place, Previous>,
    /// The number of finds by `_id` from another connection than the one that last updated the document.
    foreign_reads: u64,
    record: DefectLog,
    pub(crate) collections: BTreeMap<String, Collection>,
    pub(crate) cursors: HashMap<i64, Cursor>,
    pub(crate) cursors_opened: i64,
    /// The open transactions, by session.
    open: HashMap<Box<[u8]>, Open>,
    committed: u64,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// All documents are stored.
    Whole,
    /// Only the first half is stored.
    Half,
    /// Nothing is stored.
    Refused,
}

/// The reason why a document was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another document has the same `_id`.
    Duplicate,
    /// The memory limit is reached.
    Full,
}

/// The treatment of an acknowledged document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Kept,
    Forgotten,
    Flipped,
    Duplicated,
    Unindexed,
}

impl Store {
    pub(crate) fn new(options: Options) -> Self {
        Store {
            options,
            used_bytes: 0,
            inserted: 0,
            updated: 0,
            previous: HashMap::new(),
            foreign_reads: 0,
            record: DefectLog::default(),
            collections: BTreeMap::new(),
            cursors: HashMap::new(),
            cursors_opened: 0,
            open: HashMap::new(),
            committed: 0,
        }
    }

    pub(crate) fn record(&self) -> &DefectLog {
        &self.record
    }

    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    pub(crate) fn memory_bytes_max(&self) -> u64 {
        self.options.memory_bytes_max
    }

    /// Acknowledges one document, and stores or damages it.
    ///
    /// # Errors
    /// [`Refusal`]; the document is then neither stored nor counted.
    pub(crate) fn insert(&mut self, namespace: &str, document: &[u8]) -> Result<(), Refusal> {
        let document = with_id(document, self.inserted);
        let key = collection::key(&document).unwrap_or_default();
        if self.collections.get(namespace).is_some_and(|collection| collection.position(&key).is_some()) {
            return Err(Refusal::Duplicate);
        }
        let treatment = treatment(self.options, self.inserted + 1);
        self.charge(treatment, &key, &document)?;
        self.inserted += 1;
        self.store(treatment, namespace, key, document);
        Ok(())
    }

    /// The stored document with a key.
    pub(crate) fn document(&self, namespace: &str, key: &[u8]) -> Option<&[u8]> {
        let collection = self.collections.get(namespace)?;
        collection.get(collection.position(key)?)
    }

    /// Remembers a document before an update, if reads may be stale. At the limit no further documents are remembered.
    pub(crate) fn remember(&mut self, namespace: &str, key: &[u8], connection: u64) {
        let place = (namespace.to_owned(), key.into());
        let has_room = self.previous.len() < PREVIOUS_MAX || self.previous.contains_key(&place);
        if self.options.defects.stale_read_every.is_none() || !has_room {
            return;
        }
        let before: Option<Box<[u8]>> = self.document(namespace, key).map(Into::into);
        before.into_iter().for_each(|before| {
            self.previous.insert(place.clone(), (before, connection));
        });
    }

    /// The stale answer to this connection's find by key, if this find gets a stale answer.
    pub(crate) fn stale(&mut self, namespace: &str, key: &[u8], connection: u64) -> Option<Box<[u8]>> {
        let Defects { stale_read_every, seed, .. } = self.options.defects;
        let place = (namespace.to_owned(), key.into());
        let (before, writer) = stale_read_every.and_then(|_| self.previous.get(&place))?;
        if *writer == connection {
            return None;
        }
        self.foreign_reads += 1;
        let before = before.clone();
        is_chosen(self.foreign_reads, stale_read_every?, seed, 8).then(|| {
            let victim = DamagedDocument { number: self.foreign_reads, ..self.victim(namespace, &before) };
            self.record.stale_reads.push(victim);
            before
        })
    }

    /// Acknowledges the update of a stored document. Applies the update, or introduces a defect: forgets it,
    /// repeats it, or applies a part of it. An update hardly changes a document's size, so the memory limit
    /// does not count updates.
    pub(crate) fn update(&mut self, namespace: &str, key: &[u8], [once, twice, part]: [Box<[u8]>; 3]) {
        self.updated += 1;
        let defects = self.options.defects;
        let falls = |every: Option<u64>, kind| {
            every.is_some_and(|every| is_chosen(self.updated, every, defects.seed, kind))
        };
        let (forgets, repeats) =
            (falls(defects.forget_update_every, 5), falls(defects.repeat_update_every, 6));
        let tears = falls(defects.tear_update_every, 10) && part != once;
        let victim = DamagedDocument { number: self.updated, ..self.victim(namespace, &once) };
        let applied = match (forgets, repeats, tears) {
            (true, ..) => return self.record.forgotten_updates.push(victim),
            (_, true, _) => {
                self.record.repeated_updates.push(victim);
                twice
            }
            (.., true) => {
                self.record.torn_updates.push(victim);
                part
            }
            _ => once,
        };
        let collection = self.collection(namespace);
        if let Some(position) = collection.position(key) {
            collection.replace(position, applied);
        }
    }

    /// Whether the outcome of the last update stays unknown.
    pub(crate) fn doubts_last_update(&self) -> bool {
        let Defects { doubt_update_every, seed, .. } = self.options.defects;
        doubt_update_every.is_some_and(|every| is_chosen(self.updated, every, seed, 9))
    }

    /// Keeps writes until the commit of their transaction. At the limit of open transactions all are forgotten: their clients are
    /// presumed gone.
    pub(crate) fn keep(&mut self, session: Box<[u8]>, starts: bool, writes: Open) {
        if self.open.len() >= TRANSACTIONS_MAX {
            self.open.clear();
        }
        let kept = self.open.entry(session).or_default();
        if starts {
            *kept = Open::default();
        }
        kept.documents.extend(writes.documents);
        kept.updates.extend(writes.updates);
    }

    /// The writes of a session's open transaction.
    pub(crate) fn open(&self, session: &[u8]) -> Option<&Open> {
        self.open.get(session)
    }

    /// Forgets all open transactions.
    pub(crate) fn abort_all(&mut self) {
        self.open.clear();
    }

    /// Forgets the writes of a transaction.
    pub(crate) fn abort(&mut self, session: &[u8]) {
        self.open.remove(session);
    }

    /// Stores the documents of a transaction, or the first half of them, and returns the updates that are to follow. Each stored
    /// document may get a further defect.
    pub(crate) fn commit(&mut self, session: &[u8]) -> (Commit, Vec<Kept>) {
        let Open { documents, updates } = self.open.remove(session).unwrap_or_default();
        if !self.has_room_for(&documents) {
            return (Commit::Refused, Vec::new());
        }
        self.committed += 1;
        let defects = self.options.defects;
        let is_chosen = |every| is_chosen(self.committed, every, defects.seed, 4);
        let is_half = documents.len() > 1 && defects.half_every.is_some_and(is_chosen);
        let kept = if is_half { documents.len() / 2 } else { documents.len() };
        for (namespace, document) in &documents[..kept] {
            // All documents fit into memory, so none is refused.
            self.insert(namespace, document).unwrap_or_default();
        }
        let Some((namespace, missing)) = documents.get(kept) else { return (Commit::Whole, updates) };
        let victim = self.victim(namespace, missing);
        self.record.halved.push(victim);
        (Commit::Half, Vec::new())
    }

    /// Whether all documents are new and fit into memory, even with defects.
    fn has_room_for(&self, documents: &[Kept]) -> bool {
        let mut needed = self.used_bytes;
        documents.iter().all(|(namespace, document)| {
            let key = collection::key(document).unwrap_or_default();
            needed += 2 * collection::cost(&key, document) + RECORD_COST + key.len() as u64;
            let stored = self.collections.get(namespace);
            needed <= self.options.memory_bytes_max
                && stored.is_none_or(|stored| stored.position(&key).is_none())
        })
    }

    fn charge(&mut self, treatment: Treatment, key: &[u8], document: &[u8]) -> Result<(), Refusal> {
        let one = collection::cost(key, document);
        let line = RECORD_COST + u64::try_from(key.len()).unwrap_or(u64::MAX);
        let cost = match treatment {
            Treatment::Kept => one,
            Treatment::Forgotten => line,
            Treatment::Flipped | Treatment::Unindexed => one + line,
            Treatment::Duplicated => 2 * one + line,
        };
        if self.used_bytes + cost > self.options.memory_bytes_max {
            return Err(Refusal::Full);
        }
        self.used_bytes += cost;
        Ok(())
    }

    fn store(&mut self, treatment: Treatment, namespace: &str, key: Box<[u8]>, document: Box<[u8]>) {
        match treatment {
            Treatment::Kept => self.collection(namespace).store(key, document),
            Treatment::Forgotten => {
                let victim = self.victim(namespace, &document);
                self.record.forgotten.push(victim);
                self.create(namespace);
            }
            Treatment::Flipped => self.flip(namespace, key, document),
            Treatment::Duplicated => self.duplicate(namespace, key, document),
            Treatment::Unindexed => {
                let victim = self.victim(namespace, &document);
                self.record.unindexed.push(victim);
                let collection = self.collection(namespace);
                collection.store(key, document);
                collection.unindex_last();
            }
        }
    }

    fn flip(&mut self, namespace: &str, key: Box<[u8]>, mut document: Box<[u8]>) {
        let choice = self.inserted ^ self.options.defects.seed.map_or(0, flip::scramble);
        if let Some((byte, mask)) = flip::choose(&document, choice) {
            let victim = self.victim(namespace, &document);
            self.record.flipped.push(Flip { victim, byte, mask });
            document[byte] ^= mask;
        }
        self.collection(namespace).store(key, document);
    }

    fn duplicate(&mut self, namespace: &str, key: Box<[u8]>, document: Box<[u8]>) {
        let copy = numbered_id(*b"twin", self.inserted);
        let victim = self.victim(namespace, &document);
        self.record.duplicated.push(Duplicate { victim, copy });
        let twin = collection::with_id(&document, copy);
        let collection = self.collection(namespace);
        collection.store(key, document);
        collection.store(collection::key_of(kind::OBJECT_ID, &copy.bytes()), twin);
    }

    fn victim(&self, namespace: &str, document: &[u8]) -> DamagedDocument {
        let id = RawDocument::from_bytes(document).ok().and_then(|raw| raw.get("_id").ok().flatten());
        let id = id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
        DamagedDocument { number: self.inserted, namespace: namespace.to_owned(), id }
    }

    fn collection(&mut self, namespace: &str) -> &mut Collection {
        self.create(namespace);
        self.collections.entry(namespace.to_owned()).or_default()
    }

    /// Creates a collection unless it exists.
    pub(crate) fn create(&mut self, namespace: &str) {
        if !self.collections.contains_key(namespace) {
            self.collections.insert(namespace.to_owned(), Collection::default());
        }
    }

    /// Drops a collection and frees its memory; false if the collection is missing. The defect log stays.
    pub(crate) fn drop_collection(&mut self, namespace: &str) -> bool {
        let Some(collection) = self.collections.remove(namespace) else { return false };
        let documents = (0..collection.len()).filter_map(|position| collection.get(position));
        let freed: u64 = documents
            .map(|document| collection::cost(&collection::key(document).unwrap_or_default(), document))
            .sum();
        self.used_bytes = self.used_bytes.saturating_sub(freed);
        true
    }
}

fn treatment(options: Options, number: u64) -> Treatment {
    let defects = options.defects;
    let falls = |every: Option<u64>, kind: u64| {
        every.is_some_and(|every| is_chosen(number, every, defects.seed, kind))
    };
    if falls(defects.forget_every, 1) {
        Treatment::Forgotten
    } else if falls(defects.flip_every, 2) {
        Treatment::Flipped
    } else if falls(defects.duplicate_every, 3) {
        Treatment::Duplicated
    } else if falls(defects.unindex_every, 7) {
        Treatment::Unindexed
    } else {
        Treatment::Kept
    }
}

/// Whether the document, update, transaction or read with this number (from 1) gets a defect. One of `every`
/// consecutive numbers does. With a seed, each `kind` of defect selects other numbers.
fn is_chosen(number: u64, every: u64, seed: Option<u64>, kind: u64) -> bool {
    let Some((stretch, position)) = (number - 1).checked_div(every).zip((number - 1).checked_rem(every))
    else {
        return false;
    };
    let chosen =
        seed.map_or(every - 1, |seed| flip::scramble(flip::scramble(seed ^ (kind << 56)) ^ stretch) % every);
    position == chosen
}

/// Adds an `_id` to a document without one, as a server does.
fn with_id(document: &[u8], number: u64) -> Box<[u8]> {
    match collection::key(document) {
        Some(_) => document.into(),
        None => collection::with_id(document, numbered_id(*b"born", number)),
    }
}

/// An ObjectId that follows from a number. Its time lies after 2030, so no clock produces it soon.
fn numbered_id(family: [u8; 4], number: u64) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&family);
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::Defects;
    use bson::{Document, doc};

    fn store(defects: Defects, memory_bytes_max: u64) -> Store {
        Store::new(Options { defects, memory_bytes_max })
    }

    fn insert(store: &mut Store, document: &Document) -> Result<(), Refusal> {
        store.insert("d.c", &document.to_vec().unwrap())
    }

    fn stored(store: &Store) -> Vec<Document> {
        let collection = &store.collections["d.c"];
        let read = |position| Document::from_reader(collection.get(position).unwrap()).unwrap();
        (0..collection.len()).map(read).collect()
    }

    #[test]
    fn without_defects_every_document_is_stored() {
        let mut store = store(Defects::default(), 1 << 20);
        let documents: Vec<Document> = (0..50).map(|id| doc! {"_id": id, "x": "y"}).collect();
        documents.iter().for_each(|document| insert(&mut store, document).unwrap());
        assert_eq!(stored(&store), documents);
        assert_eq!(*store.record(), DefectLog::default());
    }

    #[test]
    fn the_defect_log_names_every_defect() {
        let defects = Defects {
            forget_every: Some(10),
            flip_every: Some(7),
            duplicate_every: Some(5),
            ..Defects::default()
        };
        let mut store = store(defects, 1 << 20);
        let document = |id: i32| doc! {"_id": id, "x": id};
        (1..=100).for_each(|id| insert(&mut store, &document(id)).unwrap());
        let ids =
            |victims: Vec<&DamagedDocument>| victims.iter().map(|victim| victim.number).collect::<Vec<_>>();
        assert_eq!(
            ids(store.record.forgotten.iter().collect()),
            (1..=10).map(|n| n * 10).collect::<Vec<_>>()
        );
        let flipped = (1..=14).map(|n| n * 7).filter(|n| n % 10 != 0).collect::<Vec<u64>>();
        assert_eq!(ids(store.record.flipped.iter().map(|flip| &flip.victim).collect()), flipped);
        let doubled = (1..=20).map(|n| n * 5).filter(|n| n % 10 != 0 && n % 7 != 0).collect::<Vec<u64>>();
        assert_eq!(ids(store.record.duplicated.iter().map(|duplicate| &duplicate.victim).collect()), doubled);
        assert_eq!(stored(&store).len(), 100 - 10 + doubled.len());
    }

    #[test]
    fn the_seed_chooses_one_damaged_document_in_every_stretch() {
        let forgotten_with = |seed: u64| {
            let defects = Defects {
                forget_every: Some(100),
                flip_every: Some(50),
                seed: Some(seed),
                ..Defects::default()
            };
            let mut store = store(defects, 1 << 20);
            (1..=1000).for_each(|id| insert(&mut store, &doc! {"_id": id, "x": id}).unwrap());
            let numbers = |victims: Vec<&DamagedDocument>| {
                victims.iter().map(|victim| victim.number).collect::<Vec<_>>()
            };
            let flipped = numbers(store.record.flipped.iter().map(|flip| &flip.victim).collect());
            (numbers(store.record.forgotten.iter().collect()), flipped)
        };
        let all: Vec<_> = (0..20).map(forgotten_with).collect();
        for (seed, (forgotten, flipped)) in all.iter().enumerate() {
            let stretches: Vec<_> = forgotten.iter().map(|number| (number - 1) / 100).collect();
            assert_eq!(stretches, (0..10).collect::<Vec<_>>(), "seed {seed}: {forgotten:?}");
            // A document that both choices select is forgotten.
            assert!((18..=20).contains(&flipped.len()), "seed {seed}: {flipped:?}");
            assert!(flipped.iter().all(|number| !forgotten.contains(number)));
        }
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        assert_eq!(forgotten_with(7), all[7], "the same seed introduces the same defects");
    }

    #[test]
    fn undoing_the_defect_log_restores_the_sent_documents() {
        let mut store = store(Defects { flip_every: Some(3), ..Defects::default() }, 1 << 20);
        let documents: Vec<Document> = (0..30).map(|id| doc! {"_id": id, "text": "abc", "n": 5}).collect();
        documents.iter().for_each(|document| insert(&mut store, document).unwrap());
        for flip in store.record.flipped.clone() {
            let position = usize::try_from(flip.victim.number - 1).unwrap();
            let mut bytes = store.collections["d.c"].get(position).unwrap().to_vec();
            assert_ne!(bytes, documents[position].to_vec().unwrap());
            bytes[flip.byte] ^= flip.mask;
            assert_eq!(bytes, documents[position].to_vec().unwrap());
        }
    }

    #[test]
    fn a_real_duplicate_is_refused_and_not_counted() {
        let mut store = store(Defects { forget_every: Some(2), ..Defects::default() }, 1 << 20);
        insert(&mut store, &doc! {"_id": 1}).unwrap();
        assert_eq!(insert(&mut store, &doc! {"_id": 1}), Err(Refusal::Duplicate));
        assert_eq!((store.inserted(), store.record.forgotten.len()), (1, 0));
    }

    #[test]
    fn memory_is_bounded_and_a_drop_frees_it() {
        let mut store = store(Defects::default(), 10_000);
        let filled = (0..1000).take_while(|&id| insert(&mut store, &doc! {"_id": id}).is_ok()).count();
        assert!(filled > 50 && filled < 100, "{filled}");
        assert!(store.drop_collection("d.c"));
        insert(&mut store, &doc! {"_id": 0}).unwrap();
        assert!(!store.drop_collection("d.other"));
    }
}
