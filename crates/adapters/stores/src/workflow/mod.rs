//! Keeps the workflow engine's instances, signals and tasks in MongoDB. Every change of an instance is one compare-and-set on one document.

mod documents;
mod news;
mod pool;
mod transaction;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bson::raw::CStr;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr, rawdoc};
use plimsoll_measure::random::mix;
use plimsoll_workflow::batch::cut;
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::instance::{DeadLetter, Signal, TaskRow};
use plimsoll_workflow::port::{
    Commit, Committed, Deployed, Due, Find, Holder, Inbox, Inserted, Lease, LeaseRequest, Leases, Postponed,
    Record, Redrive, SignalKey, Store, StoreError, Stored, missing_store, partition_of,
};

use crate::reply::{self, DUPLICATE_KEY, number};
use documents::{extend, signed};
use news::Incoming;
use pool::Pool;
use transaction::{Together, end_sessions, together};

/// The version of the collections.
const FORM: i64 = 1;
/// Documents in one command at most.
const DOCUMENTS_MAX: usize = 1000;
/// The largest size of the documents in one command, in bytes: a sixth of the server's limit.
const BYTES_MAX: usize = 8 << 20;
/// Connections of a process at most.
const PLACES_MAX: usize = 1024;
/// Bytes of one document at most.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Attempts to take the next number for a definition.
const DEPLOY_ATTEMPTS_MAX: usize = 32;
/// Attempts of a transaction that other changes abort.
const ABORTED_MAX: u32 = 5;
/// The time before its second attempt; it doubles.
const ABORTED_PAUSE: Duration = Duration::from_millis(5);
/// Partitions in one query at most, half of a server's limit. A server merges up to 200 ranges of an index, one for each partition,
/// in their order. Above its limit it reads and sorts all matching documents.
const PARTITIONS_MAX: usize = 100;
/// The `due` of a signal that its instance has forgotten: such a signal is never due, and its document makes a repeated one known.
const FORGOTTEN: i64 = i64::MAX;
/// The longest time of a search on the server, in milliseconds: the client waits no longer for its answer.
const FIND_MS_MAX: i64 = 30_000;
/// Prefix of the `_id` of an owner among the partitions.
const OWNER: &str = "owner ";

/// A store in one database of a deployment.
#[derive(Debug)]
pub struct Mongo {
    pool: Pool,
    incoming: Incoming,
    partitions: u16,
    /// The number of the next change. Processes use different numbers, so that a process recognises its changes.
    stamp: AtomicI64,
    /// Whether each start and each change has its own transaction.
    is_single: bool,
}

impl Mongo {
    /// Connects to database `db` of the deployment at `uri` with at most `connections` connections, and
    /// creates collections and indexes unless they exist. A new store has this number of partitions; an
    /// existing store keeps its number.
    ///
    /// # Errors
    ///
    /// If no server answers, the URI is invalid, or the collections have another form.
    pub async fn open(uri: &str, db: &str, connections: usize, partitions: u16) -> Stored<Self> {
        let first = first_number();
        let pool = Pool::open(uri, db, connections, first).await?;
        for (collection, indexes) in collections() {
            create(&pool, collection, indexes).await?;
        }
        let partitions = form(&pool, partitions).await?;
        let rows = (0..partitions).map(|partition| {
            rawdoc! {"_id": i32::from(partition), "owner": "", "epoch": 0_i64, "until": 0_i64}
        });
        insert(&pool, "partitions", &rows.collect::<Vec<_>>()).await?;
        Ok(Self::of(pool, partitions, first))
    }

    /// Opens an existing store, and creates nothing.
    ///
    /// # Errors
    ///
    /// As those of [`Self::open`], and if the database has no store.
    pub async fn open_existing(uri: &str, db: &str, connections: usize) -> Stored<Self> {
        let first = first_number();
        let pool = Pool::open(uri, db, connections, first).await?;
        let partitions = stored_form(&pool).await?.ok_or_else(missing_store)?;
        Ok(Self::of(pool, partitions, first))
    }

    fn of(pool: Pool, partitions: u16, first: i64) -> Self {
        let (incoming, stamp) = (Incoming::default(), AtomicI64::new(first));
        Self { pool, incoming, partitions, stamp, is_single: false }
    }

    /// Whether the store hears of work from other processes at once.
    pub fn is_listening(&self) -> bool {
        self.incoming.is_open()
    }

    /// Opens a store as [`Self::open`] does. The store writes each start and each change in its own
    /// transaction. This mode serves comparisons: batches need fewer commands.
    ///
    /// # Errors
    ///
    /// As those of [`Self::open`], and if the server has no transactions.
    pub async fn open_in_transactions(
        uri: &str,
        db: &str,
        connections: usize,
        partitions: u16,
    ) -> Stored<Self> {
        let store = Self::open(uri, db, connections, partitions).await?;
        let attempt = vec![(rawdoc! {"find": "form", "limit": 1}, None)];
        if together(&store.pool, attempt).await? != Together::Done {
            return Err(StoreError::Refused("the server has no transactions: use `mode: batches`".into()));
        }
        Ok(Self { is_single: true, ..store })
    }

    /// The same store, used like one on a server without transactions.
    #[must_use]
    pub fn without_transactions(self) -> Self {
        self.pool.has_transactions.store(false, Ordering::Relaxed);
        self
    }

    fn has_transactions(&self) -> bool {
        self.pool.has_transactions.load(Ordering::Relaxed)
    }

    fn partition(&self, instance: &str) -> u16 {
        partition_of(instance, self.partitions)
    }

    /// Names this process in a new document, so that its own inserts are no news to it.
    fn marked(&self, mut document: RawDocumentBuf) -> RawDocumentBuf {
        document.append(cstr!("f"), self.pool.first);
        document
    }

    /// Finds documents of a collection.
    async fn find_all(
        &self,
        collection: &str,
        filter: RawDocumentBuf,
        sort: RawDocumentBuf,
        limit: usize,
    ) -> Stored<Vec<RawDocumentBuf>> {
        find(&self.pool, collection, filter, sort, limit).await
    }

    /// Keeps a definition, which becomes the latest of its name. Its number orders the versions, because the
    /// clocks of processes may differ.
    async fn deploy_one(&self, definition: &Definition, now_ms: u64) -> Stored<()> {
        let version = definition.version();
        let id = rawdoc! {"n": &*version.name, "h": &*version.hash};
        for _ in 0..DEPLOY_ATTEMPTS_MAX {
            let same_name = rawdoc! {"_id.n": &*version.name};
            let latest = self.find_all("definitions", same_name, rawdoc! {"number": -1}, 1).await?;
            let is_latest = |latest: &RawDocumentBuf| {
                latest
                    .get_document("_id")
                    .and_then(|id| id.get_str("h"))
                    .is_ok_and(|hash| hash == version.hash)
            };
            if latest.first().is_some_and(is_latest) {
                return Ok(());
            }
            let last = self.find_all("definitions", rawdoc! {}, rawdoc! {"number": -1}, 1).await?;
            let next = last.first().and_then(|last| number(last, "number")).unwrap_or_default() + 1;
            let body = documents::json(definition)?;
            let mut updates = RawArrayBuf::new();
            let fields = rawdoc! {"number": next, "at": signed(now_ms), "b": body};
            updates.push(rawdoc! {"q": {"_id": id.clone()}, "u": {"$set": fields}, "upsert": true});
            let command = rawdoc! {"update": "definitions", "updates": updates, "writeConcern": durable()};
            // Another process may take the number first.
            if known(&self.pool.run(&command).await?)?.is_empty() {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("other processes deploy at the same time: deploy again".into()))
    }

    /// Changes the owners of partitions, and returns all documents about them.
    async fn change_leases(&self, statements: &[RawDocumentBuf]) -> Stored<Vec<RawDocumentBuf>> {
        let command =
            rawdoc! {"update": "partitions", "updates": array(statements), "writeConcern": durable()};
        self.pool.write(&command).await?;
        self.find_all("partitions", rawdoc! {}, rawdoc! {"_id": 1}, usize::from(u16::MAX)).await
    }

    /// Inserts instances, each in a transaction.
    async fn start_singly(&self, documents: &[RawDocumentBuf]) -> Stored<Vec<Inserted>> {
        let mut inserted = Vec::with_capacity(documents.len());
        for document in documents.chunks(1) {
            let write = rawdoc! {"insert": "instances", "documents": array(document)};
            match together(&self.pool, vec![(write, Some(1))]).await? {
                Together::Done => inserted.push(Inserted::New),
                Together::Short | Together::Aborted => {
                    inserted.extend(insert(&self.pool, "instances", document).await?)
                }
            }
        }
        Ok(inserted)
    }

    /// Changes instances with one transaction if the changes need several writes. If a change loses, each has
    /// its own transaction.
    async fn commit_group(
        &self,
        group: &[RawDocumentBuf],
        members: &[(i64, &Commit)],
    ) -> Stored<Vec<Committed>> {
        let update = rawdoc! {"update": "instances", "updates": array(group), "ordered": false};
        let signals: Vec<_> = members.iter().flat_map(|(_, commit)| consumed(commit)).collect();
        let forgotten: Vec<_> = members.iter().flat_map(|(_, commit)| forgotten(commit)).collect();
        let needs_transaction =
            group.len() > 1 || !signals.is_empty() || !forgotten.is_empty() || self.is_single;
        for attempt in 0..ABORTED_MAX {
            if !needs_transaction || !self.has_transactions() {
                return self.commit_each(group, members).await;
            }
            let count = |len: usize| i64::try_from(len).ok();
            let mut writes = vec![(update.clone(), count(group.len()))];
            writes.extend(
                groups(&signals)?.into_iter().map(|group| (removal_of_waiting(group), count(group.len()))),
            );
            let remembering = |group| (rawdoc! {"update": "signals", "updates": array(group)}, None);
            writes.extend(groups(&forgotten)?.into_iter().map(remembering));
            match together(&self.pool, writes).await? {
                Together::Done => return Ok(vec![Committed::Won; group.len()]),
                Together::Short if group.len() == 1 => return Ok(vec![Committed::Lost]),
                Together::Short => return self.commit_singly(group, members).await,
                Together::Aborted if group.len() > 1 && self.has_transactions() => {
                    return self.commit_singly(group, members).await;
                }
                Together::Aborted => tokio::time::sleep(ABORTED_PAUSE * (1 << attempt)).await,
            }
        }
        Err(StoreError::Unavailable("other changes of the same instances came between: try again".into()))
    }

    /// Changes instances, each with its own transaction.
    async fn commit_singly(
        &self,
        group: &[RawDocumentBuf],
        members: &[(i64, &Commit)],
    ) -> Stored<Vec<Committed>> {
        let mut results = Vec::with_capacity(group.len());
        for (change, member) in group.chunks(1).zip(members.chunks(1)) {
            results.extend(Box::pin(self.commit_group(change, member)).await?);
        }
        Ok(results)
    }

    /// Changes instances with one command and a separate statement for each, and then removes the signals of the changed instances. A
    /// change whose signals are not all in the store is not sent. A reply gives only the number of changes. If the number is too
    /// small, the stamps in the documents show which changes were applied.
    async fn commit_each(
        &self,
        group: &[RawDocumentBuf],
        members: &[(i64, &Commit)],
    ) -> Stored<Vec<Committed>> {
        let present = self.present(members).await?;
        let is_whole = |commit: &Commit| {
            commit.consumed.iter().all(|id| present.contains(&(commit.record.id.clone(), id.clone())))
        };
        let whole = group.iter().zip(members).filter(|(_, (_, commit))| is_whole(commit));
        let changes: Vec<_> = whole.map(|(change, _)| change.clone()).collect();
        let changed = if changes.is_empty() { Some(0) } else { self.change_each(&changes).await? };
        let results = if changed == i64::try_from(members.len()).ok() {
            vec![Committed::Won; members.len()]
        } else {
            self.results(members).await?
        };
        let won = || members.iter().zip(&results).filter(|(_, result)| **result == Committed::Won);
        self.remove_waiting(&won().flat_map(|((_, commit), _)| consumed(commit)).collect::<Vec<_>>()).await?;
        let forgotten: Vec<_> = won().flat_map(|((_, commit), _)| forgotten(commit)).collect();
        for group in groups(&forgotten)? {
            let update = rawdoc! {"update": "signals", "updates": array(group), "writeConcern": durable()};
            self.pool.write(&update).await?;
        }
        Ok(results)
    }

    /// Sends changes with one command; returns the number of those that happened.
    async fn change_each(&self, changes: &[RawDocumentBuf]) -> Stored<Option<i64>> {
        let update = rawdoc! {"update": "instances", "updates": array(changes), "ordered": false, "writeConcern": durable()};
        Ok(number(&self.pool.write(&update).await?, "n"))
    }

    /// The instances and ids of the signals of changes that wait in the store.
    async fn present(&self, members: &[(i64, &Commit)]) -> Stored<HashSet<(String, String)>> {
        let ids: Vec<_> = members.iter().flat_map(|(_, commit)| consumed(commit)).collect();
        self.stored(&ids, rawdoc! {"due": {"$lt": FORGOTTEN}}).await
    }

    /// The instances and ids of the signals with these ids, and with a further condition, that are in the store.
    async fn stored(
        &self,
        ids: &[RawDocumentBuf],
        condition: RawDocumentBuf,
    ) -> Stored<HashSet<(String, String)>> {
        let mut present = HashSet::new();
        for group in groups(ids)? {
            let mut filter = rawdoc! {"_id": {"$in": array(group)}};
            extend(&mut filter, &condition);
            let (fields, sort) = (Some(rawdoc! {"_id": 1}), rawdoc! {"_id": 1});
            let rows = find_some(&self.pool, "signals", filter, fields, sort, group.len()).await?;
            let keys = rows.iter().filter_map(|row| documents::key(row).ok());
            present.extend(keys.map(|key| (key.instance, key.id)));
        }
        Ok(present)
    }

    /// The results of changes, by their stamps.
    async fn results(&self, members: &[(i64, &Commit)]) -> Stored<Vec<Committed>> {
        let ids: Vec<_> = members.iter().map(|(_, commit)| commit.record.id.as_str()).collect();
        let stamps = self.stamps(&ids).await?;
        let result = |(stamp, commit): &(i64, &Commit)| match stamps.get(&commit.record.id) {
            Some(stored) if stored == stamp => Committed::Won,
            _ => Committed::Lost,
        };
        Ok(members.iter().map(result).collect())
    }

    /// Deletes waiting signals by id, durably.
    async fn remove_waiting(&self, ids: &[RawDocumentBuf]) -> Stored<()> {
        self.delete(ids, removal_of_waiting).await
    }

    /// Deletes signals by id, durably, with the commands that `removal` makes.
    async fn delete(
        &self,
        ids: &[RawDocumentBuf],
        removal: impl Fn(&[RawDocumentBuf]) -> RawDocumentBuf,
    ) -> Stored<()> {
        for group in groups(ids)? {
            let mut delete = removal(group);
            delete.append(cstr!("writeConcern"), durable());
            self.pool.write(&delete).await?;
        }
        Ok(())
    }

    /// Deletes one document for each filter, durably.
    async fn delete_each(&self, collection: &str, filters: &[RawDocumentBuf]) -> Stored<()> {
        let statements: Vec<_> =
            filters.iter().map(|filter| rawdoc! {"q": filter.clone(), "limit": 1}).collect();
        for group in groups(&statements)? {
            let delete = rawdoc! {"delete": collection, "deletes": array(group), "writeConcern": durable()};
            self.pool.write(&delete).await?;
        }
        Ok(())
    }

    /// Writes letters and removes their signals, with one transaction if the server has them: a redrive sees both or neither.
    async fn bury_group(&self, changes: &[RawDocumentBuf], signals: &[RawDocumentBuf]) -> Stored<()> {
        let update = || rawdoc! {"update": "dead", "updates": array(changes)};
        if self.has_transactions() {
            let mut writes = vec![(update(), None)];
            writes.extend(groups(signals)?.into_iter().map(|group| (removal(group), None)));
            if together(&self.pool, writes).await? == Together::Done {
                return Ok(());
            }
        }
        let mut update = update();
        update.append(cstr!("writeConcern"), durable());
        known(&self.pool.run(&update).await?)?;
        self.delete(signals, removal).await
    }

    /// The stamps of instances.
    async fn stamps(&self, ids: &[&str]) -> Stored<HashMap<String, i64>> {
        let mut list = RawArrayBuf::new();
        ids.iter().for_each(|id| list.push(*id));
        let command = rawdoc! {
            "find": "instances", "filter": {"_id": {"$in": list}}, "projection": {"t": 1}, "batchSize": signed(ids.len() as u64),
            "readConcern": {"level": "majority"},
        };
        let reply = self.pool.run(&command).await?;
        let stamp = |document: &RawDocument| {
            Some((document.get_str("_id").ok()?.to_owned(), number(document, "t").unwrap_or_default()))
        };
        Ok(reply::documents(&reply).into_iter().flatten().flatten().filter_map(stamp).collect())
    }
}

/// The statement that changes an instance.
fn change(stamp: i64, record: &Record) -> RawDocumentBuf {
    let query = rawdoc! {
        "_id": &*record.id, "v": signed(record.version.saturating_sub(1)), "e": {"$lte": signed(record.epoch)},
    };
    let mut new = rawdoc! {"t": stamp};
    extend(&mut new, &documents::fields(record));
    let mut absent = RawDocumentBuf::new();
    if record.due_ms.is_none() {
        absent.append(cstr!("due"), "");
    }
    if record.note.is_none() {
        absent.append(cstr!("n"), "");
    }
    let mut change = rawdoc! {"$set": new};
    if !absent.is_empty() {
        change.append(cstr!("$unset"), absent);
    }
    rawdoc! {"q": query, "u": change}
}

/// The statement that writes a dead letter. A known letter gets a new stamp only.
fn letter_change(letter: &RawDocument, stamp: i64) -> RawDocumentBuf {
    let (mut query, mut new) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    for (name, value) in letter.iter().flatten() {
        let target = if name == cstr!("_id") { &mut query } else { &mut new };
        target.append(name, value);
    }
    rawdoc! {"q": query, "u": {"$setOnInsert": new, "$set": {"t": stamp}}, "upsert": true}
}

/// The filter that finds a letter as it was read.
fn letter_filter(letter: &RawDocument) -> Stored<RawDocumentBuf> {
    let key = documents::key(letter)?;
    let id = documents::signal_id(&key.instance, &key.id);
    // An earlier version wrote letters without a stamp.
    Ok(match number(letter, "t") {
        Some(stamp) => rawdoc! {"_id": id, "t": stamp},
        None => rawdoc! {"_id": id, "t": {"$exists": false}},
    })
}

/// The ids of the signals that a change applied.
fn consumed(commit: &Commit) -> impl Iterator<Item = RawDocumentBuf> {
    commit.consumed.iter().map(|signal| documents::signal_id(&commit.record.id, signal))
}

/// The statements that let the store recognise the signals that an instance forgets with a change.
fn forgotten(commit: &Commit) -> impl Iterator<Item = RawDocumentBuf> {
    let (partition, at_ms) = (i32::from(commit.record.partition), signed(commit.record.changed_ms));
    commit.forgotten.iter().map(move |signal| {
        let set = rawdoc! {"p": partition, "due": FORGOTTEN, "at": at_ms, "n": 0_i64};
        let id = documents::signal_id(&commit.record.id, signal);
        rawdoc! {"q": {"_id": id}, "u": {"$set": set, "$unset": {"b": ""}}, "upsert": true}
    })
}

/// The command that deletes signals by id.
fn removal(ids: &[RawDocumentBuf]) -> RawDocumentBuf {
    deletion(rawdoc! {"_id": {"$in": array(ids)}})
}

/// The command that deletes waiting signals by id, and no forgotten ones.
fn removal_of_waiting(ids: &[RawDocumentBuf]) -> RawDocumentBuf {
    deletion(rawdoc! {"_id": {"$in": array(ids)}, "due": {"$lt": FORGOTTEN}})
}

/// The command that deletes all signals with a filter.
fn deletion(filter: RawDocumentBuf) -> RawDocumentBuf {
    let mut deletes = RawArrayBuf::new();
    deletes.push(rawdoc! {"q": filter, "limit": 0});
    rawdoc! {"delete": "signals", "deletes": deletes}
}

/// The write concern of all acknowledged writes.
fn durable() -> RawDocumentBuf {
    rawdoc! {"w": "majority", "j": true}
}

/// An index of a collection.
struct Index {
    name: &'static str,
    keys: RawDocumentBuf,
    /// The index contains only documents with this field, so other documents cost nothing.
    only: Option<&'static CStr>,
    is_unique: bool,
}

impl Index {
    fn document(self) -> RawDocumentBuf {
        let mut index = rawdoc! {"name": self.name, "key": self.keys};
        if let Some(only) = self.only {
            let mut filter = RawDocumentBuf::new();
            filter.append(only, rawdoc! {"$exists": true});
            index.append(cstr!("partialFilterExpression"), filter);
        }
        if self.is_unique {
            index.append(cstr!("unique"), true);
        }
        index
    }
}

/// The collections with the indexes that they need.
fn collections() -> [(&'static str, Vec<Index>); 8] {
    let index = |name, keys, only| Index { name, keys, only, is_unique: false };
    let unique = |name, keys| Index { name, keys, only: None, is_unique: true };
    [
        (
            "instances",
            vec![
                index("due", rawdoc! {"p": 1, "due": 1}, Some(cstr!("due"))),
                index("key", rawdoc! {"k": 1, "_id": 1}, Some(cstr!("k"))),
                index("status", rawdoc! {"s": 1, "_id": 1}, None),
                index("definition", rawdoc! {"d": 1, "_id": 1}, None),
            ],
        ),
        ("signals", vec![index("due", rawdoc! {"p": 1, "due": 1, "at": 1, "_id.s": 1}, None)]),
        ("partitions", Vec::new()),
        ("definitions", vec![unique("order", rawdoc! {"number": 1})]),
        ("dead", Vec::new()),
        ("redriven", Vec::new()),
        (
            "tasks",
            vec![
                index("status", rawdoc! {"s": 1, "_id": 1}, None),
                index("assignee", rawdoc! {"a": 1, "_id": 1}, Some(cstr!("a"))),
                index("instance", rawdoc! {"i": 1, "_id": 1}, None),
            ],
        ),
        ("form", Vec::new()),
    ]
}

/// Creates a collection with its indexes, before traffic needs them.
async fn create(pool: &Pool, collection: &str, indexes: Vec<Index>) -> Stored<()> {
    pool.create(collection).await?;
    if indexes.is_empty() {
        return Ok(());
    }
    let indexes: Vec<_> = indexes.into_iter().map(Index::document).collect();
    pool.run(&rawdoc! {"createIndexes": collection, "indexes": array(&indexes)}).await.map(drop)
}

/// Stores the format version and the number of partitions of a new store. Returns the stored number of partitions.
async fn form(pool: &Pool, partitions: u16) -> Stored<u16> {
    let new = rawdoc! {"_id": "form", "version": FORM, "partitions": i32::from(partitions.max(1))};
    insert(pool, "form", &[new]).await?;
    let missing = || StoreError::Unavailable("the form of the store is missing".into());
    stored_form(pool).await?.ok_or_else(missing)
}

/// The number of partitions of a store; none without a store.
async fn stored_form(pool: &Pool) -> Stored<Option<u16>> {
    let rows = find(pool, "form", rawdoc! {"_id": "form"}, rawdoc! {"_id": 1}, 1).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    match number(row, "version") {
        Some(FORM) => {}
        other => {
            let words = format!(
                "its collections have form {other:?}, and this version reads form {FORM}: upgrade this process"
            );
            return Err(StoreError::Refused(words.into()));
        }
    }
    let partitions = number(row, "partitions").and_then(|number| u16::try_from(number).ok());
    partitions.map(Some).ok_or_else(|| StoreError::Refused("the number of partitions is damaged".into()))
}

/// A number that no other process has: changes and sessions follow from it.
fn first_number() -> i64 {
    mix(plimsoll_measure::clock::now().as_ns() ^ (u64::from(process::id()) << 32)).cast_signed() >> 1
}

/// Finds documents and reads all of them, at majority.
async fn find(
    pool: &Pool,
    collection: &str,
    filter: RawDocumentBuf,
    sort: RawDocumentBuf,
    limit: usize,
) -> Stored<Vec<RawDocumentBuf>> {
    find_some(pool, collection, filter, None, sort, limit).await
}

/// As [`find`], with some fields only.
async fn find_some(
    pool: &Pool,
    collection: &str,
    filter: RawDocumentBuf,
    projection: Option<RawDocumentBuf>,
    sort: RawDocumentBuf,
    limit: usize,
) -> Stored<Vec<RawDocumentBuf>> {
    let size = signed(limit.max(1) as u64).min(i64::from(i32::MAX));
    let mut command = rawdoc! {
        "find": collection, "filter": filter, "sort": sort, "limit": size, "batchSize": size, "readConcern": {"level": "majority"},
        "maxTimeMS": FIND_MS_MAX,
    };
    if let Some(projection) = projection {
        command.append(cstr!("projection"), projection);
    }
    let reply = pool.run(&command).await?;
    let mut all = batch(&reply, "firstBatch");
    let mut cursor = cursor(&reply);
    // A batch is limited in bytes too.
    while cursor != 0 {
        let reply = pool.run(&rawdoc! {"getMore": cursor, "collection": collection}).await?;
        all.extend(batch(&reply, "nextBatch"));
        cursor = self::cursor(&reply);
    }
    Ok(all)
}

fn cursor(reply: &RawDocument) -> i64 {
    reply.get_document("cursor").ok().and_then(|cursor| number(cursor, "id")).unwrap_or_default()
}

fn batch(reply: &RawDocument, name: &str) -> Vec<RawDocumentBuf> {
    let array = reply.get_document("cursor").and_then(|cursor| cursor.get_array(name));
    let documents = array.into_iter().flatten().flatten();
    documents.filter_map(|value| Some(value.as_document()?.to_owned())).collect()
}

/// Cuts documents into groups that fit into one command.
///
/// # Errors
///
/// If a document is larger than every server accepts.
fn groups(documents: &[RawDocumentBuf]) -> Stored<Vec<&[RawDocumentBuf]>> {
    let size = |document: &RawDocumentBuf| document.as_bytes().len();
    match documents.iter().map(size).max().filter(|largest| *largest > DOCUMENT_BYTES_MAX) {
        Some(largest) => {
            let words = format!(
                "a document has {largest} bytes, and {DOCUMENT_BYTES_MAX} are allowed: keep large data elsewhere"
            );
            Err(StoreError::Refused(words.into()))
        }
        None => Ok(cut(documents, size, DOCUMENTS_MAX, BYTES_MAX)),
    }
}

fn array(documents: &[RawDocumentBuf]) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    documents.iter().for_each(|document| array.push(document.clone()));
    array
}

/// Inserts documents. An existing document does not stop the insert of the others.
async fn insert(pool: &Pool, collection: &str, documents: &[RawDocumentBuf]) -> Stored<Vec<Inserted>> {
    let mut results = Vec::with_capacity(documents.len());
    for group in groups(documents)? {
        let command = rawdoc! {"insert": collection, "documents": array(group), "ordered": false, "writeConcern": durable()};
        let known = known(&pool.run(&command).await?)?;
        let result = |at| if known.contains(&at) { Inserted::Known } else { Inserted::New };
        results.extend((0..group.len()).map(result));
    }
    Ok(results)
}

/// The numbers of documents that existed.
///
/// # Errors
///
/// If another write failed, or the write concern was not satisfied.
fn known(reply: &RawDocument) -> Stored<HashSet<usize>> {
    if let Ok(error) = reply.get_document("writeConcernError") {
        return Err(StoreError::Unavailable(pool::reason(error)));
    }
    let Ok(errors) = reply.get_array("writeErrors") else { return Ok(HashSet::new()) };
    let mut known = HashSet::new();
    for value in errors {
        match value.ok().and_then(refused) {
            Some((index, code, _)) if code == i64::from(DUPLICATE_KEY) => drop(known.insert(index)),
            Some((_, _, error)) => return Err(pool::of_write_error(error)),
            None => return Err(StoreError::Unavailable("the server's error cannot be read".into())),
        }
    }
    Ok(known)
}

/// The index, the code and the whole of a write error.
fn refused(value: RawBsonRef<'_>) -> Option<(usize, i64, &RawDocument)> {
    let error = value.as_document()?;
    let index = usize::try_from(number(error, "index")?).ok()?;
    Some((index, number(error, "code")?, error))
}

/// The time of the server, in milliseconds since 1970.
async fn server_time(pool: &Pool) -> Stored<i64> {
    let reply = pool.run(&rawdoc! {"hello": 1}).await?;
    let time = reply.get_datetime("localTime").map(bson::DateTime::timestamp_millis);
    time.map_err(|_| StoreError::Refused("the server does not tell its time".into()))
}

/// The statements that record that an owner lives, renew its partitions, and release others.
fn renewals(request: &LeaseRequest, pool: &Pool, now_ms: i64) -> Vec<RawDocumentBuf> {
    let (owner, until_ms) = (request.owner.as_str(), now_ms.saturating_add(signed(request.ttl_ms)));
    let mut release = RawArrayBuf::new();
    request.release.iter().for_each(|partition| release.push(i32::from(*partition)));
    let alive = rawdoc! {"until": until_ms, "first": pool.first, "size": signed(pool.size as u64)};
    let mine = |partitions: RawDocumentBuf, until_ms: i64| {
        let query = rawdoc! {"_id": partitions, "owner": owner, "until": {"$gt": now_ms}};
        rawdoc! {"q": query, "u": {"$set": {"until": until_ms}}, "multi": true}
    };
    vec![
        rawdoc! {"q": {"_id": format!("{OWNER}{owner}")}, "u": {"$set": alive}, "upsert": true},
        mine(rawdoc! {"$nin": release.clone()}, until_ms),
        mine(rawdoc! {"$in": release}, 0),
    ]
}

/// The statement that claims a free partition.
fn claim(request: &LeaseRequest, free: Lease, now_ms: i64) -> RawDocumentBuf {
    let query =
        rawdoc! {"_id": i32::from(free.partition), "epoch": signed(free.epoch), "until": {"$lte": now_ms}};
    let until_ms = now_ms.saturating_add(signed(request.ttl_ms));
    rawdoc! {"q": query, "u": {"$set": {"owner": &*request.owner, "until": until_ms, "epoch": signed(free.epoch + 1)}}}
}

/// The sessions of owners whose leases have ended: for each owner, the first number and the number of places.
fn gone(documents: &[RawDocumentBuf], now_ms: i64) -> impl Iterator<Item = (i64, usize)> {
    let ended = documents
        .iter()
        .filter(move |document| number(document, "until").is_some_and(|until_ms| until_ms <= now_ms));
    ended.filter_map(|document| {
        Some((number(document, "first")?, usize::try_from(number(document, "size")?).ok()?.min(PLACES_MAX)))
    })
}

/// The owner's partitions and the free partitions, among the documents about leases.
fn leases(documents: &[RawDocumentBuf], owner: &str, now_ms: i64) -> (Leases, Vec<Lease>) {
    let (mut leases, mut free) = (Leases::default(), Vec::new());
    for document in documents {
        let is_over = number(document, "until").unwrap_or_default() <= now_ms;
        let Some(partition) = number(document, "_id").and_then(|id| u16::try_from(id).ok()) else {
            leases.owners += usize::from(!is_over);
            continue;
        };
        let epoch = number(document, "epoch").and_then(|epoch| u64::try_from(epoch).ok()).unwrap_or_default();
        match (is_over, document.get_str("owner")) {
            (true, _) => free.push(Lease { partition, epoch }),
            (false, Ok(holder)) if holder == owner => leases.held.push(Lease { partition, epoch }),
            _ => {}
        }
    }
    leases.free = free.len();
    (leases, free)
}

impl Store for Mongo {
    fn partitions(&self) -> u16 {
        self.partitions
    }

    async fn deploy(&self, definitions: &[Definition], now_ms: u64) -> Stored<()> {
        for definition in definitions {
            self.deploy_one(definition, now_ms).await?;
        }
        Ok(())
    }

    async fn definitions(&self) -> Stored<Vec<Deployed>> {
        let sort = rawdoc! {"number": 1};
        let rows = self.find_all("definitions", rawdoc! {}, sort, usize::from(u16::MAX)).await?;
        Ok(readable(&rows, documents::deployed))
    }

    async fn deployed(&self) -> Stored<u64> {
        let (fields, sort) = (Some(rawdoc! {"number": 1}), rawdoc! {"number": -1});
        let rows = find_some(&self.pool, "definitions", rawdoc! {}, fields, sort, 1).await?;
        let last = rows.first().and_then(|row| number(row, "number"));
        Ok(last.and_then(|last| u64::try_from(last).ok()).unwrap_or_default())
    }

    async fn start(&self, records: &[Record]) -> Stored<Vec<Inserted>> {
        let documents: Vec<_> =
            records.iter().map(|record| self.marked(documents::instance(record))).collect();
        if self.is_single {
            return self.start_singly(&documents).await;
        }
        insert(&self.pool, "instances", &documents).await
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        let document =
            |signal: &Signal| Ok(self.marked(documents::signal(signal, self.partition(&signal.instance))?));
        let documents = signals.iter().map(document).collect::<Stored<Vec<_>>>()?;
        insert(&self.pool, "signals", &documents).await
    }

    /// Reads the server's time first. That time is slightly in the past when it is used. So a lease ends a
    /// little early, and an ended lease counts as free a little late.
    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        let now_ms = server_time(&self.pool).await?;
        let rows = self.change_leases(&renewals(request, &self.pool, now_ms)).await?;
        let (held, free) = leases(&rows, &request.owner, now_ms);
        let missing = request.want.saturating_sub(held.held.len());
        let free = free.iter().filter(|lease| !request.release.contains(&lease.partition));
        let claims: Vec<_> = free.take(missing).map(|lease| claim(request, *lease, now_ms)).collect();
        if claims.is_empty() {
            return Ok(held);
        }
        for (first, size) in gone(&rows, now_ms) {
            end_sessions(&self.pool, first, size).await;
        }
        let gone = [rawdoc! {"q": {"_id": {"$gte": OWNER}, "until": {"$lte": now_ms}}, "limit": 0}];
        self.pool.write(&rawdoc! {"delete": "partitions", "deletes": array(&gone)}).await?;
        Ok(leases(&self.change_leases(&claims).await?, &request.owner, now_ms).0)
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        let now_ms = server_time(&self.pool).await?;
        let filter = rawdoc! {"epoch": {"$gt": 0_i64}};
        let rows = self.find_all("partitions", filter, rawdoc! {"_id": 1}, usize::from(u16::MAX)).await?;
        let holder = |row: &RawDocumentBuf| {
            let signed = |key| number(row, key).unwrap_or_default();
            Some(Holder {
                partition: u16::try_from(signed("_id")).ok()?,
                owner: row.get_str("owner").unwrap_or_default().to_owned(),
                epoch: u64::try_from(signed("epoch")).ok()?,
                lease_ms: signed("until").saturating_sub(now_ms),
            })
        };
        Ok(rows.iter().filter_map(holder).collect())
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        let mut due = Due::default();
        for partitions in partitions.chunks(PARTITIONS_MAX) {
            let filter = rawdoc! {"p": {"$in": numbers(partitions)}, "due": {"$lte": signed(until_ms)}};
            let (signals, records) = tokio::try_join!(
                self.find_all("signals", filter.clone(), rawdoc! {"due": 1, "at": 1, "_id.s": 1}, limit),
                self.find_all("instances", filter, rawdoc! {"due": 1}, limit),
            )?;
            due.signals.append(&mut readable(&signals, documents::of_signal));
            due.records.append(&mut readable(&records, documents::record));
        }
        due.signals.sort_by(|a, b| a.order().cmp(&b.order()));
        due.records.sort_by_key(|record| record.due_ms);
        due.signals.truncate(limit);
        due.records.truncate(limit);
        Ok(due)
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let filter = rawdoc! {"_id": {"$in": documents::texts(ids)}};
        let rows = self.find_all("instances", filter, rawdoc! {"_id": 1}, ids.len()).await?;
        let records = readable(&rows, documents::record).into_iter();
        let records: HashMap<String, Record> = records.map(|record| (record.id.clone(), record)).collect();
        Ok(ids.iter().map(|id| records.get(id).cloned()).collect())
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        let count = i64::try_from(commits.len()).unwrap_or(i64::MAX);
        let first = self.stamp.fetch_add(count, Ordering::Relaxed);
        let statements: Vec<_> =
            (first..).zip(commits).map(|(stamp, commit)| change(stamp, &commit.record)).collect();
        let mut results = Vec::with_capacity(commits.len());
        let groups = if self.is_single { statements.chunks(1).collect() } else { groups(&statements)? };
        for group in groups {
            let members = (first..).zip(commits).skip(results.len()).take(group.len());
            results.extend(self.commit_group(group, &members.collect::<Vec<_>>()).await?);
        }
        Ok(results)
    }

    async fn forget(&self, partitions: &[u16], before_ms: u64) -> Stored<()> {
        for partitions in partitions.chunks(PARTITIONS_MAX) {
            let filter = rawdoc! {"p": {"$in": numbers(partitions)}, "due": FORGOTTEN, "at": {"$lt": signed(before_ms)}};
            self.pool.write(&deletion(filter)).await?;
        }
        Ok(())
    }

    /// Removes signals durably: an instance forgets the ids of signals whose removal is certain.
    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        let ids: Vec<_> = signals.iter().map(|key| documents::signal_id(&key.instance, &key.id)).collect();
        self.remove_waiting(&ids).await
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        let statement = |signal: &Postponed| {
            let set = rawdoc! {"due": signed(signal.due_ms), "n": i64::from(signal.attempts)};
            let id = documents::signal_id(&signal.key.instance, &signal.key.id);
            rawdoc! {"q": {"_id": id, "due": {"$lt": FORGOTTEN}}, "u": {"$set": set}}
        };
        let statements: Vec<_> = signals.iter().map(statement).collect();
        for group in groups(&statements)? {
            self.pool
                .write(&rawdoc! {"update": "signals", "updates": array(group), "writeConcern": durable()})
                .await?;
        }
        Ok(())
    }

    /// A known letter stays as it is, apart from its stamp: a redrive that read it before must not delete it.
    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        let stamp = self.stamp.fetch_add(1, Ordering::Relaxed);
        let change = |letter: &DeadLetter| {
            let partition = self.partition(&letter.signal.instance);
            Ok(letter_change(&documents::letter(letter, partition)?, stamp))
        };
        let changes = letters.iter().map(change).collect::<Stored<Vec<_>>>()?;
        let id = |letter: &DeadLetter| documents::signal_id(&letter.signal.instance, &letter.signal.id);
        let ids: Vec<_> = letters.iter().map(id).collect();
        let mut first = 0;
        for group in groups(&changes)? {
            let end = first + group.len();
            self.bury_group(group, &ids[first..end]).await?;
            first = end;
        }
        Ok(())
    }

    async fn dead(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<DeadLetter>> {
        let rows = self.find_all("dead", later(after), rawdoc! {"_id": 1}, limit).await?;
        Ok(readable(&rows, documents::of_letter))
    }

    /// The signal is published before its letter goes: a crash between leaves both, and the instance recognises a repeated signal. A letter
    /// is kept if its signal still existed, because an unfinished burial may still remove the signal. A letter is also kept if it was
    /// buried again meanwhile.
    async fn redrive(&self, redrives: &[Redrive]) -> Stored<usize> {
        let by_key: BTreeMap<_, _> = redrives.iter().map(|redrive| (&redrive.key, redrive)).collect();
        let ids: Vec<_> = by_key.keys().map(|key| documents::signal_id(&key.instance, &key.id)).collect();
        let mut count = 0;
        for group in groups(&ids)? {
            let filter = rawdoc! {"_id": {"$in": array(group)}};
            let rows = self.find_all("dead", filter, rawdoc! {"_id": 1}, group.len()).await?;
            let letters = readable(&rows, |row| Ok((documents::of_letter(row)?, letter_filter(row)?)));
            let (signals, filters): (Vec<_>, Vec<_>) = letters
                .into_iter()
                .map(|(letter, filter)| (Signal { due_ms: 0, attempts: 0, ..letter.signal }, filter))
                .unzip();
            let inserted = self.publish(&signals).await?;
            let sent = |inserted: &Inserted| *inserted == Inserted::New;
            let sent: Vec<_> = inserted.iter().map(sent).collect();
            let keys =
                signals.iter().zip(&sent).filter(|(_, sent)| **sent).map(|(signal, _)| SignalKey::of(signal));
            let notes: Vec<_> =
                keys.filter_map(|key| by_key.get(&key).map(|redrive| documents::redrive(redrive))).collect();
            insert(&self.pool, "redriven", &notes).await?;
            let filters = filters.into_iter().zip(&sent).filter(|(_, sent)| **sent).map(|(filter, _)| filter);
            self.delete_each("dead", &filters.collect::<Vec<_>>()).await?;
            count += notes.len();
        }
        Ok(count)
    }

    async fn redriven(&self, limit: usize) -> Stored<Vec<Redrive>> {
        let rows = self.find_all("redriven", rawdoc! {}, rawdoc! {"_id": 1}, limit).await?;
        Ok(readable(&rows, documents::of_redrive))
    }

    async fn write_tasks(&self, rows: &[TaskRow]) -> Stored<()> {
        let statements = newest(rows).map(task_change).collect::<Stored<Vec<_>>>()?;
        for group in groups(&statements)? {
            let command = rawdoc! {"update": "tasks", "updates": array(group), "ordered": false, "writeConcern": durable()};
            // A newer row has the id already.
            known(&self.pool.run(&command).await?)?;
        }
        Ok(())
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        let mut filter = rawdoc! {"_id": {"$gt": inbox.after.as_deref().unwrap_or_default()}};
        if let Some(status) = inbox.status {
            filter.append(cstr!("s"), documents::status(status));
        }
        if !inbox.roles.is_empty() {
            let mut either = RawArrayBuf::new();
            either.push(rawdoc! {"r": {"$in": documents::texts(&inbox.roles)}});
            either.push(rawdoc! {"r": {"$size": 0}});
            filter.append(cstr!("$or"), either);
        }
        if let Some(assignee) = &inbox.assignee {
            filter.append(cstr!("a"), assignee.as_str());
        }
        if let Some(instance) = &inbox.instance {
            filter.append(cstr!("i"), instance.as_str());
        }
        let rows = self.find_all("tasks", filter, rawdoc! {"_id": 1}, inbox.limit).await?;
        Ok(readable(&rows, documents::of_task))
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        let rows = self.find_all("instances", selection(find), rawdoc! {"_id": 1}, find.limit).await?;
        Ok(rows.iter().filter_map(|row| documents::found(row)).collect())
    }

    async fn list(&self, find: &Find) -> Stored<Vec<Record>> {
        let projection = Some(rawdoc! {"b": 0});
        let sort = rawdoc! {"_id": 1};
        let rows = find_some(&self.pool, "instances", selection(find), projection, sort, find.limit).await?;
        Ok(rows.iter().filter_map(|row| documents::found(row)).collect())
    }

    async fn news(&self) -> Vec<u16> {
        self.incoming.next(&self.pool, self.partitions).await
    }

    async fn backlog(&self, now_ms: u64, limit: usize) -> Stored<usize> {
        let all: Vec<_> = (0..self.partitions).collect();
        let mut count = 0;
        for partitions in all.chunks(PARTITIONS_MAX) {
            let filter = rawdoc! {"p": {"$in": numbers(partitions)}, "due": {"$lte": signed(now_ms)}};
            let rest = signed((limit - count) as u64).min(i64::from(i32::MAX));
            if rest == 0 {
                break;
            }
            let command = rawdoc! {"count": "signals", "query": filter, "limit": rest};
            let found = number(&self.pool.run(&command).await?, "n").unwrap_or_default();
            count += usize::try_from(found).unwrap_or_default().min(limit - count);
        }
        Ok(count)
    }

    async fn known(&self, signals: &[SignalKey]) -> Stored<Vec<bool>> {
        let ids: Vec<_> = signals.iter().map(|key| documents::signal_id(&key.instance, &key.id)).collect();
        let stored = self.stored(&ids, RawDocumentBuf::new()).await?;
        let is_stored = |key: &SignalKey| stored.contains(&(key.instance.clone(), key.id.clone()));
        Ok(signals.iter().map(is_stored).collect())
    }

    async fn signals_of(&self, instance: &str, limit: usize) -> Stored<Vec<Signal>> {
        // Every id is a text, and each text comes before every document.
        let after = documents::signal_id(instance, "");
        let before = rawdoc! {"i": instance, "s": {}};
        let filter = rawdoc! {"_id": {"$gt": after, "$lt": before}, "due": {"$lt": FORGOTTEN}};
        let rows = self.find_all("signals", filter, rawdoc! {"_id": 1}, limit).await?;
        Ok(readable(&rows, documents::of_signal))
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        let mut filter = later(after);
        filter.append(cstr!("due"), rawdoc! {"$lt": FORGOTTEN});
        let rows = self.find_all("signals", filter, rawdoc! {"_id": 1}, limit).await?;
        Ok(readable(&rows, documents::of_signal))
    }
}

/// The filter of a search for instances.
fn selection(find: &Find) -> RawDocumentBuf {
    let mut filter = rawdoc! {"_id": {"$gt": find.after.as_deref().unwrap_or_default()}};
    if let Some(key) = &find.key {
        filter.append(cstr!("k"), key.as_str());
    }
    if let Some(status) = find.status {
        filter.append(cstr!("s"), status.name());
    }
    if let Some(definition) = &find.definition {
        filter.append(cstr!("d"), definition.as_str());
    }
    filter
}

/// The newest row of each task.
fn newest(rows: &[TaskRow]) -> impl Iterator<Item = &TaskRow> {
    let mut by_id = BTreeMap::new();
    for row in rows {
        let known = by_id.entry(&row.id).or_insert(row);
        if row.version > known.version {
            *known = row;
        }
    }
    by_id.into_values()
}

/// The statement that writes a row of a task, unless a newer row exists.
fn task_change(row: &TaskRow) -> Stored<RawDocumentBuf> {
    let mut change = rawdoc! {"$set": documents::task(row)?};
    if row.assignee.is_none() {
        change.append(cstr!("$unset"), rawdoc! {"a": ""});
    }
    let query = rawdoc! {"_id": &*row.id, "v": {"$lt": signed(row.version)}};
    Ok(rawdoc! {"q": query, "u": change, "upsert": true})
}

/// The values of documents. A document without a field that every version writes is left out, so that it
/// hides no other.
fn readable<T>(documents: &[RawDocumentBuf], read: impl Fn(&RawDocument) -> Stored<T>) -> Vec<T> {
    documents.iter().filter_map(|document| read(document).ok()).collect()
}

/// Partitions as a list.
fn numbers(partitions: &[u16]) -> RawArrayBuf {
    let mut list = RawArrayBuf::new();
    partitions.iter().for_each(|partition| list.push(i32::from(*partition)));
    list
}

/// The filter for all keys after `after`.
fn later(after: Option<&SignalKey>) -> RawDocumentBuf {
    after.map_or_else(RawDocumentBuf::new, |after| {
        rawdoc! {"_id": {"$gt": documents::signal_id(&after.instance, &after.id)}}
    })
}
