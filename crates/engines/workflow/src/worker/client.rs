//! Starts instances, sends signals and waits for ends, in a process with or without a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};

use super::job::{Finished, Hint};
use super::mailbox::Mailbox;
use super::registry::Registry;
use super::watch::Watchers;
use crate::definition::Definition;
use crate::group::Group;
use crate::instance::{Act, Body, EncodeError, KEPT_MAX, Signal, StartRequest, State, nesting};
use crate::port::{Clock, Inserted, Record, SignalKey, Store, StoreError, Stored, partition_of};
use crate::program::{Problem, Program};
use crate::step::{ID_BYTES_MAX, StartError, is_derived, is_id, is_internal, start};

/// Bytes of a signal at most.
const SIGNAL_BYTES_MAX: usize = 1 << 20;
/// Levels of lists and maps in a signal at most.
const SIGNAL_NESTING_MAX: usize = 100;
/// Batches of starts, and of signals, that are under way at once: while one waits for the disk, the next one is sent.
const LANES: usize = 2;
/// The longest delay of a signal.
const DELAY_MAX_MS: u64 = 366 * 24 * 3_600_000;
/// A signal with a longer delay needs an existing instance, or counts among the early signals of its
/// instance.
const DELAY_FREE_MS: u64 = 60_000;
/// The longest delay of a signal to an instance that does not exist yet.
const EARLY_DELAY_MAX_MS: u64 = 24 * 3_600_000;
/// Waiting signals to an instance that does not exist yet, at most: as many as an instance keeps.
const EARLY_MAX: usize = KEPT_MAX;
/// The room in the store for signals without a name, as a multiple of that for named signals.
const UNNAMED_ROOM: usize = 10;
/// The shortest time between two counts of the store's due signals.
const COUNT_EVERY_MS: u64 = 1_000;
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
    /// Waiting work above which senders are refused: in this process, or in the store, whose signals other processes may apply. Signals without a
    /// name, such as cancellations, have ten times the room in the store. `usize::MAX`: senders are never refused.
    pub backlog_max: usize,
    /// Waits for ends.
    pub watchers: Watchers,
    /// Gathers requests of concurrent callers.
    pub groups: Groups,
}

/// Gathers starts, signals and looks at instances of concurrent callers, so that they wait for the store together. They also share what is known
/// about the store's backlog.
#[derive(Debug)]
pub struct Groups {
    starts: Group<Record, Inserted>,
    signals: Group<Signal, Inserted>,
    looks: Group<String, Option<Arc<Record>>>,
    known: Group<SignalKey, bool>,
    counted: Mutex<Counted>,
}

/// The last count of the store's due signals.
#[derive(Debug, Default)]
struct Counted {
    at_ms: Option<u64>,
    count: usize,
}

impl Counted {
    /// Whether a count is due. If so, it counts as the last one, so that concurrent callers do not count, too.
    fn is_due(&mut self, now_ms: u64) -> bool {
        let is_recent = |at_ms: u64| (at_ms..at_ms.saturating_add(COUNT_EVERY_MS)).contains(&now_ms);
        let is_due = !self.at_ms.is_some_and(is_recent);
        if is_due {
            self.at_ms = Some(now_ms);
        }
        is_due
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            starts: Group::new(LANES),
            signals: Group::new(LANES),
            looks: Group::new(LANES),
            known: Group::new(LANES),
            counted: Mutex::default(),
        }
    }
}

/// The reason why a request was refused. Nothing happened, unless the store failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No definition has the name.
    #[error("no definition is named {0}: deploy it first")]
    UnknownDefinition(String),
    /// This program cannot use the latest definition of the name, for a reason.
    #[error("the latest definition {name} is unusable: {reason}")]
    UnusableDefinition {
        /// The definition's name.
        name: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// A definition is invalid.
    #[error("the definition is invalid: {}", .0.first().map_or("", |problem| problem.words.as_str()))]
    Definition(Vec<Problem>),
    /// The name of a definition is one of those that the engine gives to schedules.
    #[error("names that end in `.schedule` are the engine's own: choose another name for the definition")]
    ScheduleName,
    /// A definition holds a secret, and every reader of the definition would see it.
    #[error(
        "the header `{0}` holds a literal secret: write only a scheme, names of fields and references, such as `Bearer ${{crm}}` or `id=${{crm}}`, and give the secret `crm` to the workers"
    )]
    LiteralSecret(String),
    /// The request is invalid.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The state is too large.
    #[error(transparent)]
    Large(#[from] EncodeError),
    /// The id belongs to an instance of another definition, or with another business key.
    #[error(
        "the id {instance} belongs to an instance of {} with {}: choose another id",
        .definition,
        .key.as_ref().map_or_else(|| "no key".to_owned(), |key| format!("the key {key}"))
    )]
    Taken {
        /// The id.
        instance: String,
        /// The definition of the stored instance.
        definition: String,
        /// Its business key.
        key: Option<String>,
    },
    /// The signal is too large.
    #[error("the signal has {0} bytes, and {SIGNAL_BYTES_MAX} are allowed: keep large data elsewhere")]
    LargeSignal(usize),
    /// The signal is nested too deep.
    #[error("the signal is nested more than {SIGNAL_NESTING_MAX} levels deep: send deep data as text")]
    DeepSignal,
    /// The signal's moment is too far away.
    #[error("the signal is delayed by {0} ms, and {DELAY_MAX_MS} are allowed: send it later")]
    LateSignal(u64),
    /// The signal's moment is too far away for an instance that does not exist.
    #[error(
        "the signal is delayed by {0} ms, and {EARLY_DELAY_MAX_MS} are allowed while its instance does not exist: start the instance first"
    )]
    EarlySignal(u64),
    /// Too many signals wait for an instance that does not exist.
    #[error("{EARLY_MAX} signals wait for this instance, which does not exist: start it first")]
    EarlySignals,
    /// The signal's id is invalid.
    #[error("the signal's id is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters")]
    SignalId,
    /// The signal's id is one of those that the engine gives its own signals.
    #[error(
        "ids that begin with `ended:` or `cancel:` are the engine's own: choose another id for the signal"
    )]
    InternalId,
    /// The instance's id is one of those that the engine gives to instances that it starts.
    #[error(
        "ids that end in `/` and a number, and those of schedules, are the engine's own: choose another id for the instance, such as `order-1`"
    )]
    DerivedId,
    /// The name of an assignee is invalid.
    #[error("the assignee is invalid: use 1 to {ID_BYTES_MAX} bytes without control characters")]
    Assignee,
    /// Too much work waits.
    #[error("at least {0} signals, starts and calls wait: send it again later")]
    Busy(usize),
    /// The worker of this process has died.
    #[error("the worker of this process has died: restart the process, and send the request again")]
    Dead,
    /// The store failed: the request may have taken effect, and may be repeated with the same id.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store> Client<S> {
    /// Keeps a definition, which becomes the latest of its name, even if the store knows it. Its schedule
    /// runs from now on, and no other version's.
    ///
    /// # Errors
    ///
    /// If the definition is invalid, or the store fails.
    pub async fn deploy(&self, definition: &Definition, now_ms: u64) -> Result<(), ClientError> {
        self.check_alive()?;
        if definition.name.ends_with(".schedule") {
            return Err(ClientError::ScheduleName);
        }
        if let Some(header) = definition.literal_secret() {
            return Err(ClientError::LiteralSecret(header));
        }
        let schedule = definition.schedule();
        let all: Vec<_> = [definition].into_iter().chain(&schedule).cloned().collect();
        for definition in &all {
            Program::compile_new(definition).map_err(ClientError::Definition)?;
        }
        // This process learns the definition only after the store. Otherwise an instance could start that no
        // other process can run.
        self.store.deploy(&all, now_ms).await?;
        self.align_schedules(&definition.name, now_ms).await
    }

    /// Starts an instance: durable when the call returns. A repeated start changes nothing.
    ///
    /// # Errors
    ///
    /// If the request is invalid, its id belongs to another instance, this process has too much work, or the store fails.
    pub async fn start(&self, request: StartRequest, now_ms: u64) -> Result<Inserted, ClientError> {
        // A sub-workflow with the same id would mistake this instance for itself.
        if is_derived(&request.id) {
            return Err(ClientError::DerivedId);
        }
        self.check_alive()?;
        let Err(busy) = self.check_room() else { return self.begin(request, now_ms).await };
        // A repeated start needs no room.
        let stored = if is_id(&request.id) { self.look(&request.id).await? } else { None };
        match stored {
            Some(stored) => same_instance(&stored, &request.definition, request.key.as_deref()),
            None => Err(busy),
        }
    }

    /// Starts an instance with any valid id, also if too much work waits.
    pub(super) async fn begin(&self, request: StartRequest, now_ms: u64) -> Result<Inserted, ClientError> {
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
        if inserted == Inserted::Known {
            let stored = self.look(&record.id).await?;
            let same =
                |stored: Arc<Record>| same_instance(&stored, &record.definition.name, record.key.as_deref());
            return stored.map_or(Ok(inserted), same);
        }
        self.mailbox.hint(Hint::Started(record));
        Ok(inserted)
    }

    /// Sends a signal: durable when the call returns. A repetition of a signal that its instance has applied may be new to the store. It changes nothing.
    ///
    /// # Errors
    ///
    /// If the signal is invalid, this process or the store has too much work, or the store fails.
    pub async fn publish(&self, signal: Signal) -> Result<Inserted, ClientError> {
        self.check_alive()?;
        check_signal(&signal)?;
        if let Err(busy) = self.check_pressure(&signal).await {
            // A repeated signal needs no room.
            let is_known = self.is_known(&signal).await? || self.is_applied(&signal).await?;
            return if is_known { Ok(Inserted::Known) } else { Err(busy) };
        }
        self.check_delay(&signal).await?;
        self.send(signal).await
    }

    /// Sends a signal as [`Self::publish`] does. A signal is also known if its instance remembers it as applied. This costs one more read.
    ///
    /// # Errors
    ///
    /// As those of [`Self::publish`].
    pub async fn publish_unless_applied(&self, signal: Signal) -> Result<Inserted, ClientError> {
        check_signal(&signal)?;
        if self.is_applied(&signal).await? { Ok(Inserted::Known) } else { self.publish(signal).await }
    }

    /// Sends a valid signal, also if too much work waits.
    pub(super) async fn send(&self, signal: Signal) -> Result<Inserted, ClientError> {
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

    /// Whether the store knows a signal. Concurrent callers share the question.
    async fn is_known(&self, signal: &Signal) -> Stored<bool> {
        let store = self.store.clone();
        let ask = move |keys: Arc<[SignalKey]>| {
            let store = store.clone();
            async move { store.known(&keys).await }
        };
        self.groups.known.run(SignalKey::of(signal), ask).await
    }

    /// Whether the instance of a signal remembers it as applied.
    async fn is_applied(&self, signal: &Signal) -> Stored<bool> {
        let found = self.look(&signal.instance).await?;
        Ok(found.is_some_and(|record| State::has_applied(&record.body, &signal.id)))
    }

    /// The stored record of an instance. Concurrent callers share the look.
    async fn look(&self, instance: &str) -> Stored<Option<Arc<Record>>> {
        let store = self.store.clone();
        let load = move |wanted: Arc<[String]>| {
            let store = store.clone();
            async move {
                let ids: BTreeSet<_> = wanted.iter().cloned().collect();
                let found = store.load(&ids.into_iter().collect::<Vec<_>>()).await?;
                let found = found.into_iter().flatten().map(|record| (record.id.clone(), Arc::new(record)));
                let found: BTreeMap<_, _> = found.collect();
                Ok(wanted.iter().map(|id| found.get(id).cloned()).collect())
            }
        };
        self.groups.looks.run(instance.to_owned(), load).await
    }

    /// Refuses delays that would fill the store for long: perhaps no instance ever receives the signals.
    async fn check_delay(&self, signal: &Signal) -> Result<(), ClientError> {
        let delay_ms = signal.due_ms.saturating_sub(signal.sent_ms);
        if delay_ms > DELAY_MAX_MS {
            return Err(ClientError::LateSignal(delay_ms));
        }
        if delay_ms <= DELAY_FREE_MS
            || self.store.load(std::slice::from_ref(&signal.instance)).await? != [None]
        {
            return Ok(());
        }
        if delay_ms > EARLY_DELAY_MAX_MS {
            return Err(ClientError::EarlySignal(delay_ms));
        }
        let waiting = self.store.signals_of(&signal.instance, EARLY_MAX).await?;
        if waiting.len() >= EARLY_MAX && waiting.iter().all(|other| other.id != signal.id) {
            return Err(ClientError::EarlySignals);
        }
        Ok(())
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
        let is_end = |found: Option<&Record>| found.is_some_and(|record| record.status.is_ended());
        match self.wait(instance, self.watchers.watch(instance), is_end, until_ms, clock).await? {
            Waited::News(finished) => Ok(Some(finished)),
            Waited::Found(found) => Ok(found.filter(|record| is_end(Some(record))).map(|it| end_of(&it))),
        }
    }

    /// Waits until an instance has a version after another one, by any process, or until a moment. Returns its record then. None: it does not
    /// exist. A change by a worker of this process is seen at once, and one by another process up to 2 s later.
    ///
    /// # Errors
    ///
    /// If the store refuses to load the instance, or did not answer the last attempt.
    pub async fn wait_for_change(
        &self,
        instance: &str,
        after: u64,
        until_ms: u64,
        clock: &impl Clock,
    ) -> Result<Option<Arc<Record>>, ClientError> {
        let is_change = |found: Option<&Record>| found.is_none_or(|record| record.version > after);
        match self.wait(instance, self.watchers.changed(instance, after), is_change, until_ms, clock).await? {
            Waited::News(()) => Ok(self.look(instance).await?),
            Waited::Found(found) => Ok(found),
        }
    }

    /// Waits for news of an instance, and looks at its record again and again, because another process may change it. Returns the record
    /// once it is enough, or at a moment.
    async fn wait<T>(
        &self,
        instance: &str,
        news: impl Future<Output = T>,
        is_enough: impl Fn(Option<&Record>) -> bool,
        until_ms: u64,
        clock: &impl Clock,
    ) -> Result<Waited<T>, ClientError> {
        let mut news = pin!(news);
        let mut pause_ms = PAUSE_MIN_MS;
        loop {
            let found = self.look(instance).await;
            let now_ms = clock.now_ms();
            let is_last = now_ms >= until_ms
                || match &found {
                    Ok(record) => is_enough(record.as_deref()),
                    Err(error) => matches!(error, StoreError::Refused(_)),
                };
            if is_last {
                return found.map(Waited::Found).map_err(ClientError::Store);
            }
            let pause = pin!(clock.until(until_ms.min(now_ms.saturating_add(pause_ms))));
            if let Either::Left((announced, _)) = select(&mut news, pause).await {
                return Ok(Waited::News(announced));
            }
            pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
        }
    }

    /// The latest program of a name, wherever it was deployed.
    async fn program(&self, name: &str, now_ms: u64) -> Result<Arc<Program>, ClientError> {
        match self.registry.latest(name) {
            // Without an answer the known version is good enough.
            Some(_) => drop(self.registry.refresh(&*self.store, now_ms).await),
            None => self.registry.refresh_now(&*self.store).await?,
        }
        let unknown = || match self.registry.latest_fault(name) {
            Some(reason) => ClientError::UnusableDefinition { name: name.into(), reason },
            None => ClientError::UnknownDefinition(name.into()),
        };
        self.registry.latest(name).ok_or_else(unknown)
    }

    /// Refuses a signal while too much work waits in this process or in the store.
    async fn check_pressure(&self, signal: &Signal) -> Result<(), ClientError> {
        self.check_room()?;
        self.check_backlog(signal).await
    }

    /// Refuses signals while too many wait in the store, for whichever process. Cancellations, retries, acts of people and migrations can end a
    /// flood, so they have more room than named signals.
    async fn check_backlog(&self, signal: &Signal) -> Result<(), ClientError> {
        if self.backlog_max == usize::MAX {
            return Ok(());
        }
        let most = self.backlog_max.saturating_mul(UNNAMED_ROOM);
        let is_due = self.counted().is_due(signal.sent_ms);
        if is_due {
            let count = self.store.backlog(signal.sent_ms, most.saturating_add(1)).await;
            // A store that does not answer now refuses the signal itself.
            self.counted().count = count.unwrap_or(0);
        }
        let count = self.counted().count;
        let room = if matches!(signal.body, Body::Named { .. }) { self.backlog_max } else { most };
        if count > room { Err(ClientError::Busy(count)) } else { Ok(()) }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.groups.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses work if this process does none any more.
    fn check_alive(&self) -> Result<(), ClientError> {
        if self.mailbox.is_dead() { Err(ClientError::Dead) } else { Ok(()) }
    }

    /// Refuses work that this process cannot do soon.
    fn check_room(&self) -> Result<(), ClientError> {
        let backlog = self.backlog.load(Ordering::Relaxed);
        if backlog > self.backlog_max { Err(ClientError::Busy(backlog)) } else { Ok(()) }
    }
}

/// Checks that a known instance is the wanted one. A repeated start may have another input, which changes nothing.
fn same_instance(stored: &Record, definition: &str, key: Option<&str>) -> Result<Inserted, ClientError> {
    if stored.definition.name == definition && stored.key.as_deref() == key {
        return Ok(Inserted::Known);
    }
    let Record { id, definition, key, .. } = stored.clone();
    Err(ClientError::Taken { instance: id, definition: definition.name, key })
}

/// Refuses a signal that no store should have.
fn check_signal(signal: &Signal) -> Result<(), ClientError> {
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
    Ok(())
}

/// The result of a wait.
enum Waited<T> {
    /// A worker of this process announced it.
    News(T),
    /// The last record.
    Found(Option<Arc<Record>>),
}

/// The end in a record. A state that this version cannot read has no data.
fn end_of(record: &Record) -> Finished {
    match State::decode(&record.body) {
        Ok(state) => Finished::of(&state),
        Err(error) => Finished {
            instance: record.id.clone(),
            status: record.status,
            data: serde_json::Value::Null,
            error: Some(error.to_string()),
        },
    }
}
