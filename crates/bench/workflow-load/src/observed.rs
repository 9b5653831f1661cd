//! Watches the store of the engine: counts its calls, tells clients which changes are durable, and cuts batches for the control arm.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::try_join_all;
use plimsoll_measure::workflow::StoreCalls;
use plimsoll_scenario::Mode;
use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::instance::{DeadLetter, Signal, TaskRow};
use plimsoll_workflow::port::{
    Commit, Committed, Deployed, Due, Find, Holder, Inbox, Inserted, LeaseRequest, Leases, Postponed, Record,
    Redrive, SignalKey, Store, Stored, partition_of,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The time for which a claim hides a signal from other claims, in milliseconds.
const CLAIM_MS: u64 = 30_000;

/// More than the longest delay of a signal, in milliseconds.
const FAR_MS: u64 = 1_000 * 24 * 3_600_000;

/// The kinds of calls, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug)]
enum Port {
    Start,
    Publish,
    Due,
    Load,
    Commit,
    Remove,
    Claim,
    Lease,
    Postpone,
    Bury,
    Tasks,
    Definitions,
}

/// The names of the kinds.
const NAMES: [&str; 12] = [
    "start",
    "publish",
    "due",
    "load",
    "commit",
    "remove",
    "claim",
    "lease",
    "postpone",
    "bury",
    "tasks",
    "definitions",
];

/// A store that counts, and tells clients about durable changes.
#[derive(Debug)]
pub(crate) struct Observed<S> {
    store: S,
    mode: Mode,
    counts: [Count; NAMES.len()],
    conflicts: AtomicU64,
    /// Started instances that have not ended.
    open: AtomicI64,
    listeners: Mutex<HashMap<String, UnboundedSender<Record>>>,
    /// The owner of each partition: the index of a worker.
    owners: Vec<AtomicUsize>,
    workers: Vec<String>,
}

#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    items: AtomicU64,
    failed: AtomicU64,
}

impl Count {
    fn read(&self) -> StoreCalls {
        let [calls, items, failed] =
            [&self.calls, &self.items, &self.failed].map(|count| count.load(Ordering::Relaxed));
        StoreCalls { calls, items, failed }
    }
}

impl<S: Store> Observed<S> {
    /// A store for workers with these names.
    pub(crate) fn new(store: S, mode: Mode, workers: Vec<String>) -> Self {
        let owners = (0..store.partitions()).map(|_| AtomicUsize::new(0)).collect();
        Self {
            store,
            mode,
            counts: Default::default(),
            conflicts: AtomicU64::new(0),
            open: AtomicI64::new(0),
            listeners: Mutex::default(),
            owners,
            workers,
        }
    }

    /// The durable states of an instance from now on. For a signal (`instance` and its id joined by a slash), the state that applied it.
    pub(crate) fn listen(&self, subject: &str) -> UnboundedReceiver<Record> {
        let (sender, receiver) = unbounded_channel();
        self.listeners().insert(subject.to_owned(), sender);
        receiver
    }

    /// Removes a listener.
    pub(crate) fn unlisten(&self, subject: &str) {
        self.listeners().remove(subject);
    }

    /// The index of the worker that owns an instance's partition.
    pub(crate) fn owner(&self, instance: &str) -> usize {
        let partition = usize::from(partition_of(instance, self.store.partitions()));
        self.owners.get(partition).map_or(0, |owner| owner.load(Ordering::Relaxed))
    }

    /// Started instances that have not ended, by the store's answers so far.
    pub(crate) fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Changes that lost their compare-and-set.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Batches of changes that the store answered: while they grow, the engine makes progress.
    pub(crate) fn changes(&self) -> u64 {
        let commits = self.counts[Port::Commit as usize].read();
        commits.calls.saturating_sub(commits.failed)
    }

    /// The calls so far, by kind.
    pub(crate) fn calls(&self) -> Vec<(&'static str, StoreCalls)> {
        NAMES.into_iter().zip(self.counts.iter().map(Count::read)).collect()
    }

    /// Whether a signal waits.
    pub(crate) async fn has_signals(&self) -> Stored<bool> {
        let all: Vec<_> = (0..self.store.partitions()).collect();
        let due = self.store.due(&all, plimsoll_measure::clock::wall_ms() + FAR_MS, 1).await?;
        Ok(!due.signals.is_empty())
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<String, UnboundedSender<Record>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn counted<T>(&self, port: Port, items: usize, call: impl Future<Output = Stored<T>>) -> Stored<T> {
        let count = &self.counts[port as usize];
        count.calls.fetch_add(1, Ordering::Relaxed);
        count.items.fetch_add(items as u64, Ordering::Relaxed);
        let result = call.await;
        count.failed.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
        result
    }

    /// The parts of a batch, each for one call. In the control arm a part has one item.
    fn parts<'a, T>(&self, all: &'a [T]) -> std::slice::Chunks<'a, T> {
        all.chunks(if self.mode == Mode::Transactions { 1 } else { all.len().max(1) })
    }

    /// Tells listeners about instances that were started.
    fn started(&self, records: &[Record], inserted: &[Inserted]) {
        let new = inserted.iter().filter(|inserted| **inserted == Inserted::New).count();
        self.open.fetch_add(i64::try_from(new).unwrap_or(0), Ordering::Relaxed);
        let listeners = self.listeners();
        records.iter().for_each(|record| tell(&listeners, &record.id, record));
    }

    /// Tells listeners about durable changes.
    fn changed(&self, commits: &[Commit], results: &[Committed]) {
        let (mut ended, mut lost) = (0, 0);
        let listeners = self.listeners();
        for (commit, result) in commits.iter().zip(results) {
            if *result == Committed::Lost {
                lost += 1;
                continue;
            }
            let record = &commit.record;
            ended += i64::from(record.status.is_ended());
            tell(&listeners, &record.id, record);
            commit.consumed.iter().for_each(|id| tell(&listeners, &format!("{}/{id}", record.id), record));
        }
        drop(listeners);
        self.open.fetch_sub(ended, Ordering::Relaxed);
        self.conflicts.fetch_add(lost, Ordering::Relaxed);
    }

    /// Claims the signals of changes one by one: each becomes invisible for a while.
    async fn claim(&self, commits: &[Commit]) -> Stored<()> {
        let until_ms = plimsoll_measure::clock::wall_ms() + CLAIM_MS;
        for commit in commits {
            for id in &commit.consumed {
                let key = SignalKey { instance: commit.record.id.clone(), id: id.clone() };
                let claim = [Postponed { key, due_ms: until_ms, attempts: 1 }];
                self.counted(Port::Claim, 1, self.store.postpone(&claim)).await?;
            }
        }
        Ok(())
    }

    async fn commit_part(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        if self.mode == Mode::Transactions {
            self.claim(commits).await?;
        }
        self.counted(Port::Commit, commits.len(), self.store.commit(commits)).await
    }
}

/// Tells the listener of a subject, if there is one. A dropped listener needs no news.
fn tell(listeners: &HashMap<String, UnboundedSender<Record>>, subject: &str, record: &Record) {
    if let Some(sender) = listeners.get(subject) {
        sender.send(record.clone()).unwrap_or_default();
    }
}

impl<S: Store> Store for Observed<S> {
    fn partitions(&self) -> u16 {
        self.store.partitions()
    }

    async fn deploy(&self, definitions: &[Definition], now_ms: u64) -> Stored<()> {
        self.store.deploy(definitions, now_ms).await
    }

    async fn definitions(&self) -> Stored<Vec<Deployed>> {
        self.counted(Port::Definitions, 1, self.store.definitions()).await
    }

    async fn deployed(&self) -> Stored<u64> {
        self.store.deployed().await
    }

    fn announce(&self, partitions: &[u16]) {
        self.store.announce(partitions);
    }

    async fn news(&self) -> Vec<u16> {
        self.store.news().await
    }

    async fn start(&self, records: &[Record]) -> Stored<Vec<Inserted>> {
        let part = |part| self.counted(Port::Start, <[Record]>::len(part), self.store.start(part));
        let inserted = try_join_all(self.parts(records).map(part)).await?.concat();
        self.started(records, &inserted);
        Ok(inserted)
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        let part = |part| self.counted(Port::Publish, <[Signal]>::len(part), self.store.publish(part));
        Ok(try_join_all(self.parts(signals).map(part)).await?.concat())
    }

    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        let leases = self.counted(Port::Lease, 1, self.store.lease(request)).await?;
        if let Some(worker) = self.workers.iter().position(|name| *name == request.owner) {
            let owners = leases.held.iter().filter_map(|lease| self.owners.get(usize::from(lease.partition)));
            owners.for_each(|owner| owner.store(worker, Ordering::Relaxed));
        }
        Ok(leases)
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        self.store.holders().await
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        self.counted(Port::Due, 1, self.store.due(partitions, until_ms, limit)).await
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        self.counted(Port::Load, ids.len(), self.store.load(ids)).await
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        let results = try_join_all(self.parts(commits).map(|part| self.commit_part(part))).await?.concat();
        self.changed(commits, &results);
        Ok(results)
    }

    async fn forget(&self, partitions: &[u16], before_ms: u64) -> Stored<()> {
        self.store.forget(partitions, before_ms).await
    }

    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        let part = |part| self.counted(Port::Remove, <[SignalKey]>::len(part), self.store.remove(part));
        try_join_all(self.parts(signals).map(part)).await.map(drop)
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        self.counted(Port::Postpone, signals.len(), self.store.postpone(signals)).await
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        self.counted(Port::Bury, letters.len(), self.store.bury(letters)).await
    }

    async fn dead(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<DeadLetter>> {
        self.store.dead(after, limit).await
    }

    async fn redrive(&self, redrives: &[Redrive]) -> Stored<usize> {
        self.store.redrive(redrives).await
    }

    async fn redriven(&self, limit: usize) -> Stored<Vec<Redrive>> {
        self.store.redriven(limit).await
    }

    async fn write_tasks(&self, rows: &[TaskRow]) -> Stored<()> {
        self.counted(Port::Tasks, rows.len(), self.store.write_tasks(rows)).await
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        self.store.tasks(inbox).await
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        self.store.find(find).await
    }

    async fn backlog(&self, now_ms: u64, limit: usize) -> Stored<usize> {
        self.store.backlog(now_ms, limit).await
    }

    async fn known(&self, signals: &[SignalKey]) -> Stored<Vec<bool>> {
        self.store.known(signals).await
    }

    async fn signals_of(&self, instance: &str, limit: usize) -> Stored<Vec<Signal>> {
        self.store.signals_of(instance, limit).await
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        self.store.signals(after, limit).await
    }
}
