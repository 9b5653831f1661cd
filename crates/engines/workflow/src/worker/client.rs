//! Starts instances, sends signals and waits for ends, in a process with or without a worker.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use super::job::{Finished, Hint};
use super::mailbox::Mailbox;
use super::registry::Registry;
use crate::definition::Definition;
use crate::group::Group;
use crate::instance::{EncodeError, Signal, StartRequest, nesting};
use crate::port::{Inserted, Record, Store, StoreError};
use crate::program::{Problem, Program};
use crate::step::{ID_BYTES_MAX, StartError, start};

/// Bytes of a signal at most.
const SIGNAL_BYTES_MAX: usize = 1 << 20;
/// Levels of lists and maps in a signal at most.
const SIGNAL_NESTING_MAX: usize = 100;
/// Batches of starts, and of signals, that are under way at once: while one waits for the disk, the next one is sent.
const LANES: usize = 2;

/// Starts instances and sends signals.
pub struct Client<S> {
    /// The store.
    pub store: Arc<S>,
    /// Compiled definitions.
    pub registry: Arc<Registry>,
    /// The worker of this process.
    pub mailbox: Mailbox,
    /// Signals that wait in the worker's memory.
    pub backlog: Arc<AtomicUsize>,
    /// Waiting signals above which senders are refused.
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
    /// Too many signals wait.
    #[error("{0} signals wait for this process: send it again later")]
    Busy(usize),
    /// The store failed: the request may have happened, and may be repeated with the same id.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store> Client<S> {
    /// Keeps a definition, which becomes the latest of its name, and starts its schedule if it has one.
    ///
    /// # Errors
    ///
    /// If the definition is invalid, or the store fails.
    pub async fn deploy(&self, definition: &Definition, now_ms: u64) -> Result<(), ClientError> {
        // This process knows the definition only after the store does: an instance must not start that no other process can run.
        Program::compile(definition).map_err(ClientError::Definition)?;
        self.store.deploy(std::slice::from_ref(definition), now_ms).await?;
        self.registry.add(definition).map_err(ClientError::Definition)?;
        let Some(schedule) = definition.schedule() else { return Ok(()) };
        let program = self.registry.add(&schedule).map_err(ClientError::Definition)?;
        self.store.deploy(std::slice::from_ref(&schedule), now_ms).await?;
        let id = format!("{}/{}", schedule.name, program.version.hash);
        let request = StartRequest {
            id,
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
        let unknown = || ClientError::UnknownDefinition(request.definition.clone());
        let program = self.registry.latest(&request.definition).ok_or_else(unknown)?;
        let state = start(&program, request, now_ms)?;
        let record = Record::of(&state, self.store.partitions(), 1, 0)?;
        let store = &self.store;
        let write = |records: Vec<Record>| async move { store.start(&records).await };
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
        let is_invalid =
            |id: &str| id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control);
        if is_invalid(&signal.id) || is_invalid(&signal.instance) {
            return Err(ClientError::SignalId);
        }
        let body = serde_json::to_vec(&signal.body).unwrap_or_default();
        if body.len() > SIGNAL_BYTES_MAX {
            return Err(ClientError::LargeSignal(body.len()));
        }
        // The wrapper of a body, and the state that keeps it, add some levels.
        if nesting(&body) > SIGNAL_NESTING_MAX {
            return Err(ClientError::DeepSignal);
        }
        let store = &self.store;
        let write = |signals: Vec<Signal>| async move { store.publish(&signals).await };
        let inserted = self.groups.signals.run(signal.clone(), write).await?;
        self.mailbox.hint(Hint::Published(signal));
        Ok(inserted)
    }

    fn check_backlog(&self) -> Result<(), ClientError> {
        let backlog = self.backlog.load(Ordering::Relaxed);
        if backlog > self.backlog_max { Err(ClientError::Busy(backlog)) } else { Ok(()) }
    }
}

/// Waits for ends of instances in this process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Watchers {
    watches: Arc<Mutex<BTreeMap<String, Watch>>>,
}

#[derive(Debug, Default)]
struct Watch {
    finished: Option<Finished>,
    waker: Option<Waker>,
}

impl Watchers {
    /// The end of an instance that a worker of this process will end. Call it before the instance starts. An end in another process is not told:
    /// load the instance after a while.
    pub fn watch(&self, instance: &str) -> impl Future<Output = Finished> + Send + use<> {
        let (watches, instance) = (self.watches.clone(), instance.to_owned());
        lock(&watches).entry(instance.clone()).or_default();
        let guard = Unwatch { watches, instance };
        poll_fn(move |context| {
            let mut watches = lock(&guard.watches);
            let watch = watches.entry(guard.instance.clone()).or_default();
            if let Some(finished) = watch.finished.take() {
                return Poll::Ready(finished);
            }
            watch.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }

    pub(super) fn tell(&self, finished: Finished) {
        let mut watches = lock(&self.watches);
        let Some(watch) = watches.get_mut(&finished.instance) else { return };
        let waker = watch.waker.take();
        watch.finished = Some(finished);
        drop(watches);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Forgets a watch with its future.
struct Unwatch {
    watches: Arc<Mutex<BTreeMap<String, Watch>>>,
    instance: String,
}

impl Drop for Unwatch {
    fn drop(&mut self) {
        lock(&self.watches).remove(&self.instance);
    }
}

fn lock(watches: &Mutex<BTreeMap<String, Watch>>) -> std::sync::MutexGuard<'_, BTreeMap<String, Watch>> {
    watches.lock().unwrap_or_else(PoisonError::into_inner)
}
