//! Watches the changes that a store confirms: an instance waits once its wait is durable.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_workflow::definition::Definition;
use plimsoll_workflow::instance::{DeadLetter, Signal, Status, TaskRow};
use plimsoll_workflow::port::{
    Commit, Committed, Due, Find, Holder, Inbox, Inserted, LeaseRequest, Leases, Postponed, Record, Redrive,
    SignalKey, Store, Stored,
};
use tokio::sync::oneshot;

/// Clients that expect an instance to wait for a signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

impl Waits {
    /// Expects that an instance will wait. Call it before the instance starts.
    pub(crate) fn expect(&self, instance: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), sender);
        receiver
    }

    fn tell(&self, instance: &str) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(instance);
        // A client that gave up needs no answer.
        sender.map(|sender| sender.send(())).unwrap_or(Ok(())).unwrap_or_default();
    }
}

/// A store that tells when an instance waits.
#[derive(Debug)]
pub(crate) struct Observed<S> {
    pub(crate) store: S,
    pub(crate) waits: Waits,
}

impl<S: Store> Store for Observed<S> {
    fn partitions(&self) -> u16 {
        self.store.partitions()
    }

    fn commit_removes_signals(&self) -> bool {
        self.store.commit_removes_signals()
    }

    async fn deploy(&self, definitions: &[Definition], now_ms: u64) -> Stored<()> {
        self.store.deploy(definitions, now_ms).await
    }

    async fn definitions(&self) -> Stored<Vec<Definition>> {
        self.store.definitions().await
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
        self.store.start(records).await
    }

    async fn publish(&self, signals: &[Signal]) -> Stored<Vec<Inserted>> {
        self.store.publish(signals).await
    }

    async fn lease(&self, request: &LeaseRequest) -> Stored<Leases> {
        self.store.lease(request).await
    }

    async fn holders(&self) -> Stored<Vec<Holder>> {
        self.store.holders().await
    }

    async fn due(&self, partitions: &[u16], until_ms: u64, limit: usize) -> Stored<Due> {
        self.store.due(partitions, until_ms, limit).await
    }

    async fn load(&self, ids: &[String]) -> Stored<Vec<Option<Record>>> {
        self.store.load(ids).await
    }

    async fn commit(&self, commits: &[Commit]) -> Stored<Vec<Committed>> {
        let results = self.store.commit(commits).await?;
        for (commit, result) in commits.iter().zip(&results) {
            let record = &commit.record;
            if *result == Committed::Won && record.status == Status::Running && record.due_ms.is_none() {
                self.waits.tell(&record.id);
            }
        }
        Ok(results)
    }

    async fn remove(&self, signals: &[SignalKey]) -> Stored<()> {
        self.store.remove(signals).await
    }

    async fn postpone(&self, signals: &[Postponed]) -> Stored<()> {
        self.store.postpone(signals).await
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Stored<()> {
        self.store.bury(letters).await
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
        self.store.write_tasks(rows).await
    }

    async fn tasks(&self, inbox: &Inbox) -> Stored<Vec<TaskRow>> {
        self.store.tasks(inbox).await
    }

    async fn find(&self, find: &Find) -> Stored<Vec<Record>> {
        self.store.find(find).await
    }

    async fn signals(&self, after: Option<&SignalKey>, limit: usize) -> Stored<Vec<Signal>> {
        self.store.signals(after, limit).await
    }
}
