//! Keeps a store in memory: for tests, simulations and demonstrations. Nothing survives the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::definition::{Definition, Version};
use crate::instance::{DeadLetter, Signal, TaskRow};
use crate::port::{
    Commit, Committed, Deployed, Due, Find, Holder, Inbox, Inserted, Lease, LeaseRequest, Leases, Postponed,
    Record, Redrive, SignalKey, Store, StoreError, Stored, partition_of,
};

/// The way in which a commit removes the signals that it consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Together with its changes, as a store with transactions does.
    WithCommit,
    /// By a later write, which may fail, as a store without transactions does.
    AfterCommit,
}

/// A store in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    partitions: u16,
    removal: Removal,
    clock_ms: Arc<AtomicU64>,
    tables: Arc<Mutex<Tables>>,
    /// Batches with this text are refused.
    refused: Arc<Mutex<Option<String>>>,
    /// Writes before one fails.
    writes: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Tables {
    definitions: Vec<Deployed>,
    /// Deployments that changed the definitions or their order.
    deployed: u64,
    instances: BTreeMap<String, Record>,
    signals: BTreeMap<SignalKey, Signal>,
    /// The moments when instances forgot signals.
    forgotten: BTreeMap<SignalKey, u64>,
    leases: BTreeMap<u16, Row>,
    owners: BTreeMap<String, u64>,
    dead: BTreeMap<SignalKey, DeadLetter>,
    redriven: Vec<Redrive>,
    tasks: BTreeMap<String, TaskRow>,
}

#[derive(Debug)]
struct Row {
    owner: String,
    epoch: u64,
    until_ms: u64,
}

impl Memory {
    /// An empty store.
    pub fn new(partitions: u16, removal: Removal) -> Self {
        Self {
            partitions,
            removal,
            clock_ms: Arc::default(),
            tables: Arc::default(),
            refused: Arc::default(),
            writes: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// Sets the store's clock, by which leases end.
    pub fn set_clock(&self, now_ms: u64) {
        self.clock_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Refuses every later batch with a record or a signal that contains a text, as a server refuses a batch with one large document.
    pub fn refuse(&self, text: &str) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
    }

    /// Deploys a definition that this version of the program cannot read.
    pub fn deploy_unreadable(&self, version: Version) {
        self.tables().deploy(Deployed::decode(version, b"{}"));
    }

    /// Lets a write fail after this number of writes, and all writes after it.
    pub fn fail_after(&self, writes: u64) {
        self.writes.store(writes, Ordering::Relaxed);
    }

    fn count_write(&self) -> Stored<()> {
        let count = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        let counted = self.writes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        counted.map(drop).map_err(|_| StoreError::Unavailable("simulated".into()))
    }

    fn check<'a>(&self, mut bytes: impl Iterator<Item = &'a [u8]>) -> Stored<()> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = refused.as_deref() else { return Ok(()) };
        let contains = |bytes: &[u8]| bytes.windows(text.len().max(1)).any(|part| part == text.as_bytes());
        if bytes.any(contains) { Err(StoreError::Refused("a part is invalid".into())) } else { Ok(()) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn deploy(&mut self, deployed: Deployed) {
        let latest = self.definitions.iter().rfind(|known| known.version.name == deployed.version.name);
        if latest.is_none_or(|known| known.version != deployed.version) {
            self.definitions.retain(|known| known.version != deployed.version);
            self.definitions.push(deployed);
            self.deployed += 1;
        }
    }

    fn lease(&mut self, request: &LeaseRequest, partitions: u16, now_ms: u64) -> Leases {
        let until_ms = now_ms.saturating_add(request.ttl_ms);
        self.owners.retain(|_, until_ms| *until_ms > now_ms);
        self.owners.insert(request.owner.clone(), until_ms);
        for partition in 0..partitions {
            let row = self.leases.entry(partition).or_insert_with(|| Row {
                owner: String::new(),
                epoch: 0,
                until_ms: 0,
            });
            if row.owner != request.owner || row.until_ms <= now_ms {
                continue;
            }
            row.until_ms = if request.release.contains(&partition) { 0 } else { until_ms };
        }
        let held = |row: &Row| row.owner == request.owner && row.until_ms > now_ms;
        let mut missing = request.want.saturating_sub(self.leases.values().filter(|row| held(row)).count());
        for (partition, row) in &mut self.leases {
            if missing > 0 && row.until_ms <= now_ms && !request.release.contains(partition) {
                *row = Row { owner: request.owner.clone(), epoch: row.epoch + 1, until_ms };
                missing -= 1;
            }
        }
        let rows = self.leases.iter().filter(|(_, row)| held(row));
        let held = rows.map(|(partition, row)| Lease { partition: *partition, epoch: row.epoch }).collect();
        let free = self.leases.values().filter(|row| row.until_ms <= now_ms).count();
        Leases { held, owners: self.owners.len(), free }
    }

    fn commit(&mut self, commit: &Commit) -> Committed {
        let Some(stored) = self.instances.get_mut(&commit.record.id) else { return Committed::Lost };
        if stored.version + 1 != commit.record.version || stored.epoch > commit.record.epoch {
            return Committed::Lost;
        }
        let key = |id: &String| SignalKey { instance: commit.record.id.clone(), id: id.clone() };
        if !commit.consumed.iter().map(key).all(|key| self.signals.contains_key(&key)) {
            return Committed::Lost;
        }
        *stored = commit.record.clone();
        for key in commit.forgotten.iter().map(key) {
            self.signals.remove(&key);
            self.forgotten.insert(key, commit.record.changed_ms);
        }
        Committed::Won
    }

    /// Removes the signals that won changes consumed.
    fn remove_consumed(&mut self, commits: &[Commit], results: &[Committed]) {
        for (commit, _) in commits.iter().zip(results).filter(|(_, result)| **result == Committed::Won) {
            let key = |id: &String| SignalKey { instance: commit.record.id.clone(), id: id.clone() };
            commit.consumed.iter().map(key).for_each(|key| drop(self.signals.remove(&key)));
        }
    }
}

impl Store for Memory {
    fn partitions(&self) -> u16 {
        self.partitions
    }

    async fn deploy(&self, definitions: &[Definition], _now_ms: u64) -> Stored<()> {
        let mut tables = self.tables();
        for definition in definitions {
            let version = definition.version();
            tables.deploy(Deployed { version, definition: Ok(definition.clone()) });
        }
        Ok(())
    }

    async fn deployed(&self) -> Stored<u64> {
        Ok(self.tables().deployed)
    }

    async fn definitions(&self) -> Stored<Vec<Deployed>> {
        Ok(self.tables().definitions.clone())
    }

    async fn start(&self, records: &[Record]) -> Stored<Vec<Inserted>> {
        self.count_write()?;
        self.check(records.iter().map(|record| &record.body[..]))?;
        let mut tables = self.tables();
        let insert = |record: &Record| {
            if tables.instances.contains_key(&record.id) {
                return Inserted::Known;
            }
            tables.instances.insert(record.id.clone(), record.clone());
            Inserted::New
        };
        Ok(records.iter().map(insert).collect())
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        self.count_write()?;
        self.check(signals.iter().map(|signal| signal.id.as_bytes()))?;
        let mut tables = self.tables();
        let insert = |signal: &Signal| {
            let key = SignalKey::of(signal);
            if tables.signals.contains_key(&key) || tables.forgotten.contains_key(&key) {
                return Inserted::Known;
            }
            tables.signals.insert(key, signal.clone());
            Inserted::New
        };
        Ok(signals.iter().map(insert).collect())
    }

    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        let now_ms = self.clock_ms.load(Ordering::Relaxed);
        Ok(self.tables().lease(request, self.partitions, now_ms))
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        let now_ms = self.clock_ms.load(Ordering::Relaxed);
        let left = |row: &Row| {
            i64::try_from(row.until_ms).unwrap_or(i64::MAX) - i64::try_from(now_ms).unwrap_or(i64::MAX)
        };
        let holder = |(partition, row): (&u16, &Row)| Holder {
            partition: *partition,
            owner: row.owner.clone(),
            epoch: row.epoch,
            lease_ms: left(row),
        };
        Ok(self.tables().leases.iter().filter(|(_, row)| row.epoch > 0).map(holder).collect())
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        let tables = self.tables();
        let owned = |instance: &str| partitions.contains(&partition_of(instance, self.partitions));
        let signals =
            tables.signals.values().filter(|signal| signal.due_ms <= until_ms && owned(&signal.instance));
        let mut signals: Vec<_> = signals.cloned().collect();
        signals.sort_by(|a, b| a.order().cmp(&b.order()));
        signals.truncate(limit);
        let is_due = |record: &&Record| record.due_ms.is_some_and(|due_ms| due_ms <= until_ms);
        let records = tables.instances.values().filter(is_due);
        let mut records: Vec<_> =
            records.filter(|record| partitions.contains(&record.partition)).cloned().collect();
        records.sort_by_key(|record| record.due_ms);
        records.truncate(limit);
        Ok(Due { signals, records })
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        let tables = self.tables();
        Ok(ids.iter().map(|id| tables.instances.get(id).cloned()).collect())
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        self.check(commits.iter().map(|commit| &commit.record.body[..]))?;
        let mut tables = self.tables();
        let results: Vec<_> = commits.iter().map(|commit| tables.commit(commit)).collect();
        if self.removal == Removal::AfterCommit {
            self.count_write()?;
        }
        tables.remove_consumed(commits, &results);
        Ok(results)
    }

    async fn forget(&self, partitions: &[u16], before_ms: u64) -> Stored<()> {
        let is_of = |key: &SignalKey| partitions.contains(&partition_of(&key.instance, self.partitions));
        self.tables().forgotten.retain(|key, at_ms| *at_ms >= before_ms || !is_of(key));
        Ok(())
    }

    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        let mut tables = self.tables();
        signals.iter().for_each(|key| drop(tables.signals.remove(key)));
        Ok(())
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        let mut tables = self.tables();
        for postponed in signals {
            if let Some(signal) = tables.signals.get_mut(&postponed.key) {
                (signal.due_ms, signal.attempts) = (postponed.due_ms, postponed.attempts);
            }
        }
        Ok(())
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        self.count_write()?;
        let mut tables = self.tables();
        for letter in letters {
            let key = SignalKey::of(&letter.signal);
            tables.signals.remove(&key);
            tables.forgotten.remove(&key);
            tables.dead.entry(key).or_insert_with(|| letter.clone());
        }
        Ok(())
    }

    async fn dead(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<DeadLetter>> {
        let tables = self.tables();
        let later = tables.dead.iter().filter(|(key, _)| after.is_none_or(|after| *key > after));
        Ok(later.take(limit).map(|(_, letter)| letter.clone()).collect())
    }

    async fn redrive(&self, redrives: &[Redrive]) -> Stored<usize> {
        let mut tables = self.tables();
        let mut count = 0;
        for redrive in redrives {
            let Some(letter) = tables.dead.remove(&redrive.key) else { continue };
            let signal = Signal { due_ms: 0, attempts: 0, ..letter.signal };
            tables.signals.entry(redrive.key.clone()).or_insert(signal);
            tables.redriven.push(redrive.clone());
            count += 1;
        }
        Ok(count)
    }

    async fn redriven(&self, limit: usize) -> Stored<Vec<Redrive>> {
        Ok(self.tables().redriven.iter().take(limit).cloned().collect())
    }

    async fn write_tasks(&self, rows: &[TaskRow]) -> Stored<()> {
        self.count_write()?;
        let mut tables = self.tables();
        for row in rows {
            if tables.tasks.get(&row.id).is_none_or(|known| known.version < row.version) {
                tables.tasks.insert(row.id.clone(), row.clone());
            }
        }
        Ok(())
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        let tables = self.tables();
        let matches = |row: &&TaskRow| {
            inbox.status.is_none_or(|status| row.status == status)
                && (inbox.roles.is_empty()
                    || row.roles.is_empty()
                    || inbox.roles.iter().any(|role| row.roles.contains(role)))
                && inbox.assignee.as_ref().is_none_or(|assignee| row.assignee.as_ref() == Some(assignee))
                && inbox.instance.as_ref().is_none_or(|instance| row.instance == *instance)
                && inbox.after.as_ref().is_none_or(|after| row.id > *after)
        };
        Ok(tables.tasks.values().filter(matches).take(inbox.limit).cloned().collect())
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        let tables = self.tables();
        let matches = |record: &&Record| {
            find.key.as_ref().is_none_or(|key| record.key.as_ref() == Some(key))
                && find.status.is_none_or(|status| record.status == status)
                && find.definition.as_ref().is_none_or(|name| record.definition.name == *name)
                && find.after.as_ref().is_none_or(|after| record.id > *after)
        };
        Ok(tables.instances.values().filter(matches).take(find.limit).cloned().collect())
    }

    async fn backlog(&self, now_ms: u64, limit: usize) -> Stored<usize> {
        let tables = self.tables();
        Ok(tables.signals.values().filter(|signal| signal.due_ms <= now_ms).take(limit).count())
    }

    async fn known(&self, signals: &[SignalKey]) -> Stored<Vec<bool>> {
        let tables = self.tables();
        let is_known = |key| tables.signals.contains_key(key) || tables.forgotten.contains_key(key);
        Ok(signals.iter().map(is_known).collect())
    }

    async fn signals_of(&self, instance: &str, limit: usize) -> Stored<Vec<Signal>> {
        let tables = self.tables();
        let of_instance = tables.signals.values().filter(|signal| signal.instance == instance);
        Ok(of_instance.take(limit).cloned().collect())
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        let tables = self.tables();
        let later = tables.signals.iter().filter(|(key, _)| after.is_none_or(|after| *key > after));
        Ok(later.take(limit).map(|(_, signal)| signal.clone()).collect())
    }
}
