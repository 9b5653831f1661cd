//! Starts instances, sends signals and waits for ends, in a process with or without a worker.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{Either, select};

use super::job::{Finished, Hint};
use super::mailbox::Mailbox;
use super::registry::Registry;
use super::watch::Watchers;
use crate::definition::Definition;
use crate::group::Group;
use crate::instance::{Act, Body, EncodeError, Signal, StartRequest, State, nesting};
use crate::port::{Clock, Inserted, Record, Store, StoreError, partition_of};
use crate::program::{Problem, Program};
use crate::step::{ID_BYTES_MAX, StartError, is_id, is_internal, start};

/// Bytes of a signal at most.
const SIGNAL_BYTES_MAX: usize = 1 << 20;
/// Levels of lists and maps in a signal at most.
const SIGNAL_NESTING_MAX: usize = 100;
/// Batches of starts, and of signals, that are under way at once: while one waits for the disk, the next one is sent.
const LANES: usize = 2;
/// The first pause between two looks at an instance that another process may end. It doubles.
const PAUSE_MIN_MS: u64 = 50;
/// The longest pause between two looks.
const PAUSE_MAX_MS: u64 = 2_000;

/// Starts instances and sends signals.
pub struct Client<S> {
    /// The store.
    pub store: Arc<S>,
    /// Compiled definitions.
    pub registry: Arc<Registry>,
    /// The worker of this process.
    pub mailbox: Mailbox,
    /// Signals, starts and calls that wait in the worker's memory.
    pub backlog: Arc<AtomicUsize>,
    /// Waiting work above which senders are refused.
    pub backlog_max: usize,
    /// Waits for ends.
    pub watchers: Watchers,
    /// Gathers requests of concurrent callers.
    pub groups: Groups,
}

/// Gathers starts and signals of concurrent callers, so that they wait for the disk together.
#[derive(Debug)]
pub struct Groups {
    starts: Group<Record, Inserted>,
    signals: Group<Signal, Inserted>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { starts: Group::new(LANES), signals: Group::new(LANES) }
    }
}

/// The reason why a request was refused. Nothing happened, unless the store failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No definition has the name.
    #[error("no definition is named {0}: deploy it first")]
    UnknownDefinition(String),
    /// A definition is invalid.
    #[error("the definition is invalid: {}", .0.first().map_or("", |problem| problem.words.as_str()))]
    Definition(Vec<Problem>),
    /// The request is invalid.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The state is too large.
    #[error(transparent)]
    Large(#[from] EncodeError),
    /// The signal is too large.
    #[error("the signal has {0} bytes, and {SIGNAL_BYTES_MAX} are allowed: keep large data elsewhere")]
    LargeSignal(usize),
    /// The signal is nested too deep.
    #[error("the signal is nested more than {SIGNAL_NESTING_MAX} levels deep: send deep data as text")]
    DeepSignal,
    /// The signal's id is invalid.
    #[error("the signal's id is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters")]
    SignalId,
    /// The signal's id is one of those that the engine gives its own signals.
    #[error(
        "ids that begin with `ended:` or `cancel:` are the engine's own: choose another id for the signal"
    )]
    InternalId,
    /// The name of an assignee is invalid.
    #[error("the assignee is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters")]
    Assignee,
    /// Too much work waits.
    #[error("{0} signals, starts and calls wait for this process: send it again later")]
    Busy(usize),
    /// The store failed: the request may have happened, and may be repeated with the same id.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store> Client<S> {
    /// Keeps a definition, which becomes the latest of its name unless it is known, and starts its schedule if it has one.
    ///
    /// # Errors
    ///
    /// If the definition is invalid, or the store fails.
    pub async fn deploy(&self, definition: &Definition, now_ms: u64) -> Result<(), ClientError> {
        let schedule = definition.schedule();
        let all: Vec<_> = [definition].into_iter().chain(&schedule).cloned().collect();
        for definition in &all {
            Program::compile(definition).map_err(ClientError::Definition)?;
        }
        // This process knows the definition only after the store does: an instance must not start that no other process can run.
        self.store.deploy(&all, now_ms).await?;
        self.registry.learn(&self.store.definitions().await?);
        let Some(schedule) = schedule else { return Ok(()) };
        let request = StartRequest {
            id: format!("{}/{}", schedule.name, schedule.version().hash),
            definition: schedule.name,
            key: None,
            parent: None,
            depth: 0,
            input: serde_json::Value::Null,
        };
        self.start(request, now_ms).await.map(drop)
    }

    /// Starts an instance: durable when the call returns.
    ///
    /// # Errors
    ///
    /// If the request is invalid, this process has too much work, or the store fails.
    pub async fn start(&self, request: StartRequest, now_ms: u64) -> Result<Inserted, ClientError> {
        self.check_backlog()?;
        let program = self.program(&request.definition, now_ms).await?;
        let state = start(&program, request, now_ms)?;
        let record = Record::of(&state, self.store.partitions(), 1, 0)?;
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let write = move |records: Arc<[Record]>| {
            let (store, mailbox) = (store.clone(), mailbox.clone());
            async move {
                let inserted = store.start(&records).await?;
                store.announce(&mailbox.others(records.iter().map(|record| record.partition)));
                Ok(inserted)
            }
        };
        let inserted = self.groups.starts.run(record.clone(), write).await?;
        if inserted == Inserted::New {
            self.mailbox.hint(Hint::Started(record));
        }
        Ok(inserted)
    }

    /// Sends a signal: durable when the call returns.
    ///
    /// # Errors
    ///
    /// If the signal is invalid, this process has too much work, or the store fails.
    pub async fn publish(&self, signal: Signal) -> Result<Inserted, ClientError> {
        self.check_backlog()?;
        if !is_id(&signal.id) || !is_id(&signal.instance) {
            return Err(ClientError::SignalId);
        }
        if is_internal(&signal.id) {
            return Err(ClientError::InternalId);
        }
        if let Body::Act { act: Act::Assign { to } | Act::Reassign { to }, .. } = &signal.body
            && !is_id(to)
        {
            return Err(ClientError::Assignee);
        }
        let body = serde_json::to_vec(&signal.body).unwrap_or_default();
        if body.len() > SIGNAL_BYTES_MAX {
            return Err(ClientError::LargeSignal(body.len()));
        }
        // The wrapper of a body, and the state that keeps it, add some levels.
        if nesting(&body) > SIGNAL_NESTING_MAX {
            return Err(ClientError::DeepSignal);
        }
        let (store, mailbox) = (self.store.clone(), self.mailbox.clone());
        let write = move |signals: Arc<[Signal]>| {
            let (store, mailbox) = (store.clone(), mailbox.clone());
            async move {
                let inserted = store.publish(&signals).await?;
                let partition = |signal: &Signal| partition_of(&signal.instance, store.partitions());
                store.announce(&mailbox.others(signals.iter().map(partition)));
                Ok(inserted)
            }
        };
        let inserted = self.groups.signals.run(signal.clone(), write).await?;
        // A known signal has the body and the moment of its first publication, not of this one.
        self.mailbox.hint(if inserted == Inserted::New { Hint::Published(signal) } else { Hint::Work });
        Ok(inserted)
    }

    /// Waits for the end of an instance in any process, until a moment. None: the instance has not ended by then, or does not exist. An end in
    /// this process is seen at once, and an end in another process up to 2 s later.
    ///
    /// # Errors
    ///
    /// If the store refuses to load the instance, or did not answer the last attempt.
    pub async fn wait_for_end(
        &self,
        instance: &str,
        until_ms: u64,
        clock: &impl Clock,
    ) -> Result<Option<Finished>, ClientError> {
        let mut end = pin!(self.watchers.watch(instance));
        let mut pause_ms = PAUSE_MIN_MS;
        loop {
            let ended = self.ended(instance).await;
            let now_ms = clock.now_ms();
            let is_last = now_ms >= until_ms || matches!(ended, Ok(Some(_)) | Err(StoreError::Refused(_)));
            if is_last {
                return ended.map_err(ClientError::Store);
            }
            let pause = pin!(clock.until(until_ms.min(now_ms.saturating_add(pause_ms))));
            if let Either::Left((finished, _)) = select(&mut end, pause).await {
                return Ok(Some(finished));
            }
            pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
        }
    }

    /// The stored end of an instance.
    async fn ended(&self, instance: &str) -> Result<Option<Finished>, StoreError> {
        let records = self.store.load(&[instance.to_owned()]).await?;
        Ok(records.into_iter().flatten().find(|record| record.status.is_ended()).map(end_of))
    }

    /// The latest program of a name, wherever it was deployed.
    async fn program(&self, name: &str, now_ms: u64) -> Result<Arc<Program>, ClientError> {
        match self.registry.latest(name) {
            // Without an answer the known version is good enough.
            Some(_) => drop(self.registry.refresh(&*self.store, now_ms).await),
            None => self.registry.refresh_now(&*self.store).await?,
        }
        self.registry.latest(name).ok_or_else(|| ClientError::UnknownDefinition(name.into()))
    }

    fn check_backlog(&self) -> Result<(), ClientError> {
        let backlog = self.backlog.load(Ordering::Relaxed);
        if backlog > self.backlog_max { Err(ClientError::Busy(backlog)) } else { Ok(()) }
    }
}

/// The end in a record. A state that this version cannot read has no data.
fn end_of(record: Record) -> Finished {
    match State::decode(&record.body) {
        Ok(state) => Finished::of(&state),
        Err(error) => Finished {
            instance: record.id,
            status: record.status,
            data: serde_json::Value::Null,
            error: Some(error.to_string()),
        },
    }
}
