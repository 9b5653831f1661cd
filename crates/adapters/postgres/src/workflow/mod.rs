//! Keeps the workflow engine's instances, signals and tasks in PostgreSQL. A batch is one statement, and a statement one transaction.

mod address;
mod counters;
mod news;
mod rows;
mod session;
mod sql;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_workflow::batch::cut;
use plimsoll_workflow::definition::{Definition, Version};
use plimsoll_workflow::instance::{DeadLetter, Signal, TaskRow, TaskStatus};
use plimsoll_workflow::port::{
    Commit, Committed, Deployed, Due, Find, Holder, Inbox, Inserted, Lease, LeaseRequest, Leases, Postponed,
    Record, Redrive, SignalKey, Store, StoreError, Stored, missing_store, partition_of,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use address::{Address, PATIENCE};
pub use counters::{counters, version};
use news::{Incoming, Outgoing};
use rows::{Records, SIGNAL, Signals, json, letter, record, signal, signed};
use session::{Prepared, Session, Sessions};

/// The statements that create the tables.
const SCHEMA: &str = include_str!("schema.sql");
/// The last object that the tables' statements create: where it exists, all others do.
const NEWEST: &str = "plimsoll_workflow.instances_status";
/// The largest size of the bodies in one statement, in bytes. A server refuses a gigabyte.
const BYTES_MAX: usize = 32 << 20;
/// The version of the tables.
const FORM: i32 = 1;
/// The lock under which tables are created: `plimwflo` as a number.
const CREATION_LOCK: i64 = 0x706c_696d_7766_6c6f;

/// The time limit of the creation of tables and indexes: an index of a large store takes minutes, and its writers wait for it.
const CREATION: Duration = Duration::from_secs(3_600);

/// A store in one database of a PostgreSQL server. Its tables are in the schema `plimsoll_workflow`.
#[derive(Debug)]
pub struct Postgres {
    sessions: Arc<Sessions>,
    address: Address,
    outgoing: Arc<Outgoing>,
    incoming: Incoming,
    partitions: u16,
}

impl Postgres {
    /// Connects to the database of `uri` with `connections` connections, and creates the tables unless they
    /// exist. A new store has this number of partitions; an existing store keeps its number.
    ///
    /// # Errors
    ///
    /// If the server does not answer, the URI is invalid, or the tables have another form.
    pub async fn open(uri: &str, connections: usize, partitions: u16) -> Stored<Self> {
        let address = Address::of(uri)?;
        let session = Session::open(&address, PATIENCE).await?;
        // The creation of an existing index locks its table against writers.
        if !is_complete(&session).await? {
            let creating = Session::open(&address, CREATION).await?;
            creating.run("SET statement_timeout = 0").await?;
            create(&creating, i16::try_from(partitions.max(1)).unwrap_or(i16::MAX)).await?;
        }
        let partitions = stored_form(&session).await?;
        Ok(Self::of(address, connections, partitions))
    }

    /// Opens an existing store, and creates nothing.
    ///
    /// # Errors
    ///
    /// As those of [`Self::open`], and if the database has no store.
    pub async fn open_existing(uri: &str, connections: usize) -> Stored<Self> {
        let address = Address::of(uri)?;
        let session = Session::open(&address, PATIENCE).await?;
        let exists = "SELECT to_regclass('plimsoll_workflow.form') IS NOT NULL";
        let exists = session.rows(exists, &[]).await?.first().is_some_and(|row| row.get(0));
        if !exists {
            return Err(missing_store());
        }
        let partitions = stored_form(&session).await?;
        Ok(Self::of(address, connections, partitions))
    }

    fn of(address: Address, connections: usize, partitions: i16) -> Self {
        Self {
            sessions: Arc::new(Sessions::new(address.clone(), connections, PATIENCE)),
            address,
            outgoing: Arc::default(),
            incoming: Incoming::default(),
            partitions: u16::try_from(partitions).unwrap_or(1),
        }
    }

    /// Whether the store hears of work from other processes at once.
    pub fn is_listening(&self) -> bool {
        self.incoming.is_open()
    }

    fn partition(&self, instance: &str) -> i16 {
        i16::try_from(partition_of(instance, self.partitions)).unwrap_or(i16::MAX)
    }

    /// Finds instances; `text` is the beginning of the statement.
    async fn search(&self, text: &str, find: &Find) -> Stored<Vec<Record>> {
        let after = find.after.clone().unwrap_or_default();
        let limit = i64::try_from(find.limit).unwrap_or(i64::MAX);
        let mut query = Query::new(text, &after);
        if let Some(key) = &find.key {
            query.and("i.key = ?", key);
        }
        if let Some(status) = find.status {
            query.fixed(&format!("i.status = '{}'", status.name()));
        }
        if let Some(definition) = &find.definition {
            // A generic plan for a parameter would expect as many instances as an average definition has, and read all others, too.
            let is_name =
                definition.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            if !is_name {
                return Ok(Vec::new());
            }
            query.fixed(&format!("i.definition = '{definition}'"));
        }
        query.limited("i.id", &limit);
        let rows = self.rare(&query.text, &query.params).await?;
        Ok(rows.iter().map(|row| record(row, 0)).collect())
    }

    /// Runs a statement that is rare, and so is not prepared; returns its rows.
    async fn rare(&self, text: &str, params: &[&(dyn ToSql + Sync)]) -> Stored<Vec<Row>> {
        self.sessions.get().await?.rows(text, params).await
    }
}

/// Whether a store exists with every table, index and partition.
async fn is_complete(session: &Session) -> Stored<bool> {
    let exists = session.rows("SELECT to_regclass($1) IS NOT NULL", &[&NEWEST]).await?;
    if !exists.first().is_some_and(|row| row.get(0)) {
        return Ok(false);
    }
    let filled = "SELECT count(*) > 0 AND (SELECT count(*) FROM partitions) >= max(partitions) FROM form";
    Ok(session.rows(filled, &[]).await?.first().is_some_and(|row| row.get(0)))
}

/// Creates what is missing. Processes that do so at the same time wait for each other.
async fn create(session: &Session, partitions: i16) -> Stored<()> {
    session.rows("SELECT pg_advisory_lock($1)", &[&CREATION_LOCK]).await?;
    // An earlier version created this index. Readers wait for the lock of its removal. A separate statement ends that lock before the schema
    // creates other indexes.
    session.run("DROP INDEX IF EXISTS plimsoll_workflow.instances_halted").await?;
    session.run(SCHEMA).await?;
    let insert = "INSERT INTO form (version, partitions) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    session.rows(insert, &[&FORM, &partitions]).await?;
    let fill = "INSERT INTO partitions SELECT p, '', 0, 0 FROM form, generate_series(0, form.partitions - 1) AS p ON CONFLICT DO NOTHING";
    session.rows(fill, &[]).await?;
    session.rows("SELECT pg_advisory_unlock($1)", &[&CREATION_LOCK]).await.map(drop)
}

/// The number of partitions of an existing store.
async fn stored_form(session: &Session) -> Stored<i16> {
    let rows = session.rows("SELECT version, partitions FROM plimsoll_workflow.form", &[]).await?;
    let (form, partitions): (i32, i16) = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    if form == FORM {
        return Ok(partitions);
    }
    let words =
        format!("its tables have form {form}, and this version reads form {FORM}: upgrade this process");
    Err(StoreError::Refused(words.into()))
}

/// Flushes of the log since the start of the server of `uri`. Its processes report their counts once a second at most.
///
/// # Errors
///
/// If the server does not answer.
pub async fn flushes(uri: &str) -> Stored<u64> {
    let session = Session::open(&Address::of(uri)?, PATIENCE).await?;
    let rows = session.rows("SELECT wal_sync FROM pg_stat_wal", &[]).await?;
    Ok(rows.first().and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok()).unwrap_or(0))
}

/// The results of an insert. `new` contains the keys that the server inserted: the first item with such a key
/// is new, all other items were known.
fn inserted<K: Eq + std::hash::Hash>(keys: impl Iterator<Item = K>, mut new: HashSet<K>) -> Vec<Inserted> {
    keys.map(|key| if new.remove(&key) { Inserted::New } else { Inserted::Known }).collect()
}

/// The results of changes. The server returns the instance and version of each change that won.
fn committed<'a>(commits: &'a [Commit], mut won: HashSet<(&'a str, i64)>) -> Vec<Committed> {
    let result = |commit: &'a Commit| {
        let key = (commit.record.id.as_str(), signed(commit.record.version));
        if won.remove(&key) { Committed::Won } else { Committed::Lost }
    };
    commits.iter().map(result).collect()
}

/// Signals of changes as columns: the instance, its version after the change, and the signal's id.
fn signals_of<'a>(
    commits: &[&'a Commit],
    signals: impl Fn(&'a Commit) -> &'a [String],
) -> (Vec<&'a str>, Vec<i64>, Vec<&'a str>) {
    let (mut instances, mut versions, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for commit in commits.iter().copied() {
        for id in signals(commit) {
            instances.push(commit.record.id.as_str());
            versions.push(signed(commit.record.version));
            ids.push(id.as_str());
        }
    }
    (instances, versions, ids)
}

/// Partitions as a column.
fn columns(partitions: &[u16]) -> Vec<i16> {
    partitions.iter().filter_map(|partition| i16::try_from(*partition).ok()).collect()
}

/// Sorted keys as two columns: instances and signal ids.
fn keys<'a>(keys: impl Iterator<Item = &'a SignalKey>) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut keys: Vec<_> = keys.collect();
    keys.sort();
    keys.into_iter().map(|key| (key.instance.as_str(), key.id.as_str())).unzip()
}

/// Builds a query condition by condition.
struct Query<'a> {
    text: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Query<'a> {
    /// Begins with a text that has one parameter.
    fn new(text: &str, first: &'a (dyn ToSql + Sync)) -> Self {
        Self { text: text.into(), params: vec![first] }
    }

    /// Adds a condition on a value; `?` in it stands for the value.
    fn and(&mut self, condition: &str, value: &'a (dyn ToSql + Sync)) {
        self.params.push(value);
        let number = format!("${}", self.params.len());
        self.text.push_str(" AND ");
        self.text.push_str(&condition.replace('?', &number));
    }

    /// Adds a condition without a parameter: only a literal lets a generic plan use a partial index.
    fn fixed(&mut self, condition: &str) {
        self.text.push_str(&format!(" AND {condition}"));
    }

    /// Ends with the order and the limit.
    fn limited(&mut self, order: &str, limit: &'a (dyn ToSql + Sync)) {
        self.params.push(limit);
        self.text.push_str(&format!(" ORDER BY {order} LIMIT ${}", self.params.len()));
    }
}

impl Store for Postgres {
    fn partitions(&self) -> u16 {
        self.partitions
    }

    async fn deploy(&self, definitions: &[Definition], now_ms: u64) -> Stored<()> {
        for definition in definitions {
            let (version, body) = (definition.version(), json(definition)?);
            let body =
                String::from_utf8(body).map_err(|error| StoreError::Refused(error.to_string().into()))?;
            self.rare(sql::DEPLOY, &[&version.name, &version.hash, &body, &signed(now_ms)]).await?;
        }
        Ok(())
    }

    async fn definitions(&self) -> Stored<Vec<Deployed>> {
        let rows = self.rare(sql::DEFINITIONS, &[]).await?;
        let deployed = |row: &Row| {
            let version = Version { name: row.get(0), hash: row.get(1) };
            Deployed::decode(version, row.get::<_, &str>(2).as_bytes())
        };
        Ok(rows.iter().map(deployed).collect())
    }

    async fn deployed(&self) -> Stored<u64> {
        let rows = self.rare("SELECT coalesce(max(number), 0) FROM definitions", &[]).await?;
        Ok(rows.first().and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok()).unwrap_or_default())
    }

    async fn start(&self, records: &[Record]) -> Stored<Vec<Inserted>> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let mut sorted: Vec<_> = records.iter().collect();
        // The sort keeps the order of equal ids, and the first of them is inserted.
        sorted.sort_by(|a, b| a.id.cmp(&b.id));
        let mut rows = Vec::new();
        for group in cut(&sorted, |record| record.body.len(), usize::MAX, BYTES_MAX) {
            let c = Records::of(group.iter().copied());
            let params = [&c.changed()[..], &[&c.partitions]].concat();
            rows.append(&mut self.sessions.query(Prepared::Start, &params).await?);
        }
        let new = rows.iter().map(|row| row.get::<_, &str>(0)).collect();
        Ok(inserted(records.iter().map(|record| record.id.as_str()), new))
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        if signals.is_empty() {
            return Ok(Vec::new());
        }
        let mut sorted: Vec<_> = signals.iter().collect();
        sorted.sort_by(|a, b| (&a.instance, &a.id).cmp(&(&b.instance, &b.id)));
        let encoded = rows::encoded(sorted.into_iter())?;
        let mut rows = Vec::new();
        for group in cut(&encoded, |(_, body)| body.len(), usize::MAX, BYTES_MAX) {
            let c = Signals::of(group, |instance| self.partition(instance));
            rows.append(&mut self.sessions.query(Prepared::Publish, &c.params()).await?);
        }
        let new = rows.iter().map(|row| (row.get::<_, &str>(0), row.get::<_, &str>(1))).collect();
        Ok(inserted(signals.iter().map(|signal| (signal.instance.as_str(), signal.id.as_str())), new))
    }

    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        let want = i64::try_from(request.want).unwrap_or(i64::MAX);
        let release = columns(&request.release);
        let params: &[&(dyn ToSql + Sync)] = &[&request.owner, &signed(request.ttl_ms), &want, &release];
        let rows = self.sessions.query(Prepared::Lease, params).await?;
        let held = |row: &Row| {
            let (partition, epoch): (Option<i16>, Option<i64>) = (row.get(0), row.get(1));
            let partition = u16::try_from(partition?).ok()?;
            Some(Lease { partition, epoch: u64::try_from(epoch?).ok()? })
        };
        let (owners, free) = rows.first().map_or((1, 0), |row| (row.get::<_, i64>(2), row.get::<_, i64>(3)));
        Ok(Leases {
            held: rows.iter().filter_map(held).collect(),
            owners: usize::try_from(owners).unwrap_or(1),
            free: usize::try_from(free).unwrap_or(0),
        })
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        let rows = self.rare(sql::HOLDERS, &[]).await?;
        let holder = |row: &Row| Holder {
            partition: u16::try_from(row.get::<_, i16>(0)).unwrap_or(0),
            owner: row.get(1),
            epoch: u64::try_from(row.get::<_, i64>(2)).unwrap_or(0),
            lease_ms: row.get(3),
        };
        Ok(rows.iter().map(holder).collect())
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        let partitions = columns(partitions);
        let (until_ms, limit) = (signed(until_ms), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: &[&(dyn ToSql + Sync)] = &[&partitions, &until_ms, &limit];
        let session = self.sessions.get().await?;
        let (signals, records) = tokio::try_join!(
            session.query(Prepared::DueSignals, params),
            session.query(Prepared::DueRecords, params),
        )?;
        let mut due = Due::default();
        let mut known = HashSet::new();
        for row in &records {
            let record = record(row, 0);
            known.insert(record.id.clone());
            due.records.push(record);
        }
        for row in &signals {
            let signal = signal(row);
            if row.get::<_, Option<&str>>(SIGNAL).is_some() && known.insert(signal.instance.clone()) {
                due.records.push(record(row, SIGNAL));
            }
            due.signals.push(signal);
        }
        Ok(due)
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.sessions.query(Prepared::Load, &[&ids]).await?;
        let records = rows.iter().map(|row| record(row, 0));
        let found: HashMap<String, Record> = records.map(|record| (record.id.clone(), record)).collect();
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let mut sorted: Vec<_> = commits.iter().collect();
        sorted.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        let mut rows = Vec::new();
        for group in cut(&sorted, |commit| commit.record.body.len(), usize::MAX, BYTES_MAX) {
            let c = Records::of(group.iter().map(|commit| &commit.record));
            let consumed = signals_of(group, |commit| &commit.consumed);
            let forgotten = signals_of(group, |commit| &commit.forgotten);
            let params = [
                &c.changed()[..],
                &[&consumed.0, &consumed.1, &consumed.2, &forgotten.0, &forgotten.1, &forgotten.2],
            ]
            .concat();
            rows.append(&mut self.sessions.query(Prepared::Commit, &params).await?);
        }
        let won = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(committed(commits, won))
    }

    async fn forget(&self, partitions: &[u16], before_ms: u64) -> Stored<()> {
        let partitions = columns(partitions);
        self.rare(sql::FORGET, &[&partitions, &signed(before_ms)]).await.map(drop)
    }

    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        if signals.is_empty() {
            return Ok(());
        }
        let (instances, ids) = keys(signals.iter());
        self.sessions.query(Prepared::Remove, &[&instances, &ids]).await?;
        Ok(())
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        let mut signals: Vec<_> = signals.iter().collect();
        signals.sort_by(|a, b| a.key.cmp(&b.key));
        let instances: Vec<_> = signals.iter().map(|signal| signal.key.instance.as_str()).collect();
        let ids: Vec<_> = signals.iter().map(|signal| signal.key.id.as_str()).collect();
        let due_ms: Vec<_> = signals.iter().map(|signal| signed(signal.due_ms)).collect();
        let attempts: Vec<_> =
            signals.iter().map(|signal| i32::try_from(signal.attempts).unwrap_or(i32::MAX)).collect();
        self.rare(sql::POSTPONE, &[&instances, &ids, &due_ms, &attempts]).await?;
        Ok(())
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        let mut letters: Vec<_> = letters.iter().collect();
        let key = |letter: &DeadLetter| SignalKey::of(&letter.signal);
        letters.sort_by_key(|letter| key(letter));
        letters.dedup_by_key(|letter| key(letter));
        let encoded = rows::encoded(letters.iter().map(|letter| &letter.signal))?;
        let mut letters = letters.into_iter();
        for group in cut(&encoded, |(_, body)| body.len(), usize::MAX, BYTES_MAX) {
            let c = Signals::of(group, |instance| self.partition(instance));
            let group: Vec<_> = letters.by_ref().take(group.len()).collect();
            let reasons: Vec<_> = group.iter().map(|letter| letter.reason.name()).collect();
            let buried_ms: Vec<_> = group.iter().map(|letter| signed(letter.buried_ms)).collect();
            self.rare(sql::BURY, &[&c.params()[..], &[&reasons, &buried_ms]].concat()).await?;
        }
        Ok(())
    }

    async fn dead(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<DeadLetter>> {
        let (instance, id) = after.map_or(("", ""), |after| (after.instance.as_str(), after.id.as_str()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.rare(sql::DEAD, &[&instance, &id, &limit]).await?;
        Ok(rows.iter().map(letter).collect())
    }

    async fn redrive(&self, redrives: &[Redrive]) -> Stored<usize> {
        let by_key: BTreeMap<_, _> = redrives.iter().map(|redrive| (&redrive.key, redrive)).collect();
        let (instances, ids) = keys(by_key.keys().copied());
        let operators: Vec<_> = by_key.values().map(|redrive| redrive.by.as_str()).collect();
        let at_ms: Vec<_> = by_key.values().map(|redrive| signed(redrive.at_ms)).collect();
        let rows = self.rare(sql::REDRIVE, &[&instances, &ids, &operators, &at_ms]).await?;
        let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count).unwrap_or(0))
    }

    async fn redriven(&self, limit: usize) -> Stored<Vec<Redrive>> {
        let rows = self.rare(sql::REDRIVEN, &[&i64::try_from(limit).unwrap_or(i64::MAX)]).await?;
        let redrive = |row: &Row| Redrive {
            key: SignalKey { instance: row.get(0), id: row.get(1) },
            by: row.get(2),
            at_ms: u64::try_from(row.get::<_, i64>(3)).unwrap_or(0),
        };
        Ok(rows.iter().map(redrive).collect())
    }

    async fn write_tasks(&self, rows: &[TaskRow]) -> Stored<()> {
        for row in rows {
            let (version, status, body) = (signed(row.version), status(row.status), json(row)?);
            let params: &[&(dyn ToSql + Sync)] =
                &[&row.id, &version, &row.instance, &status, &row.assignee, &row.roles, &body];
            self.rare(sql::WRITE_TASKS, params).await?;
        }
        Ok(())
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        let after = inbox.after.clone().unwrap_or_default();
        let limit = i64::try_from(inbox.limit).unwrap_or(i64::MAX);
        let mut query = Query::new(sql::TASKS, &after);
        if let Some(wanted) = inbox.status {
            query.fixed(&format!("status = '{}'", status(wanted)));
        }
        if !inbox.roles.is_empty() {
            query.and("(cardinality(roles) = 0 OR roles && ?)", &inbox.roles);
        }
        if let Some(assignee) = &inbox.assignee {
            query.and("assignee = ?", assignee);
        }
        if let Some(instance) = &inbox.instance {
            query.and("instance = ?", instance);
        }
        query.limited("id", &limit);
        let rows = self.rare(&query.text, &query.params).await?;
        Ok(rows.iter().map(rows::task).collect())
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        self.search(sql::FIND, find).await
    }

    async fn list(&self, find: &Find) -> Stored<Vec<Record>> {
        self.search(sql::LIST, find).await
    }

    fn announce(&self, partitions: &[u16]) {
        self.outgoing.announce(&self.sessions, partitions);
    }

    async fn news(&self) -> Vec<u16> {
        self.incoming.next(&self.address, self.partitions).await
    }

    async fn backlog(&self, now_ms: u64, limit: usize) -> Stored<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.rare(sql::BACKLOG, &[&signed(now_ms), &limit]).await?;
        let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count).unwrap_or(0))
    }

    async fn known(&self, signals: &[SignalKey]) -> Stored<Vec<bool>> {
        let (instances, ids) = keys(signals.iter());
        let rows = self.rare(sql::KNOWN, &[&instances, &ids]).await?;
        let known: HashSet<(&str, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(signals.iter().map(|key| known.contains(&(key.instance.as_str(), key.id.as_str()))).collect())
    }

    async fn signals_of(&self, instance: &str, limit: usize) -> Stored<Vec<Signal>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.rare(sql::SIGNALS_OF, &[&instance, &limit]).await?;
        Ok(rows.iter().map(signal).collect())
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        let (instance, id) = after.map_or(("", ""), |after| (after.instance.as_str(), after.id.as_str()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.rare(sql::SIGNALS, &[&instance, &id, &limit]).await?;
        Ok(rows.iter().map(signal).collect())
    }
}

/// The name of a task's status in the table.
const fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Open => "open",
        TaskStatus::Completed => "completed",
        TaskStatus::Closed => "closed",
    }
}
