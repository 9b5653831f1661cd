//! Defines the ports of the engine: storage and services.
//!
//! Everything that must not be lost is in the store. Every operation takes a batch. An operation that fails
//! may have taken effect, so every operation may be repeated.

use std::fmt;
use std::future::Future;

use serde_json::Value;
use serde_json::error::Category;

use crate::definition::{Definition, Version};
use crate::instance::{DeadLetter, EncodeError, Signal, State, Status, TaskRow, TaskStatus};
use crate::step::{Call, CallError};

/// The failure of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer, or cannot work now. A later attempt may succeed.
    #[error("the store is unavailable: {0}")]
    Unavailable(Reason),
    /// The store refuses the content of the operation: it is too large or invalid. A later attempt fails too.
    /// A refused batch may have taken effect in part.
    #[error("the store refused the operation: {0}")]
    Refused(Reason),
}

/// The reason for the failure of a store, with the code of its server if that answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// The server's code. 0: none.
    pub code: i32,
    /// The server's name of the code, or its code as text. Empty: none.
    pub name: String,
    /// The message.
    pub message: String,
}

impl Reason {
    /// Whether the server gave a code or a name.
    pub const fn is_of_server(&self) -> bool {
        self.code != 0 || !self.name.is_empty()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, name, message } = self;
        match (*code, name.as_str()) {
            (0, "") => write!(out, "{message}"),
            (0, name) => write!(out, "{message} ({name})"),
            (code, "") => write!(out, "{message} (code {code})"),
            (code, name) => write!(out, "{message} ({name}, code {code})"),
        }
    }
}

impl From<String> for Reason {
    fn from(message: String) -> Self {
        Self { message, ..Self::default() }
    }
}

impl From<&str> for Reason {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl StoreError {
    /// The reason.
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Unavailable(reason) | Self::Refused(reason) => reason,
        }
    }
}

/// The refusal to read a store that does not exist.
pub fn missing_store() -> StoreError {
    StoreError::Refused(
        "no workflow store here: name another database, or create a store with `deploy` or a worker".into(),
    )
}

/// The result of an operation of a store.
pub type Stored<T> = Result<T, StoreError>;

/// An instance as a store keeps it: fields that are queried, and the state as opaque bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The instance's id: the primary key.
    pub id: String,
    /// The partition: a function of the id ([`partition_of`]).
    pub partition: u16,
    /// The number of the change, from 1.
    pub version: u64,
    /// The greatest epoch that has changed the instance. 0: none has.
    pub epoch: u64,
    /// The status.
    pub status: Status,
    /// The moment when the instance needs attention without a signal, in milliseconds since 1970. Indexed with the partition.
    pub due_ms: Option<u64>,
    /// The definition's version.
    pub definition: Version,
    /// The business key. Indexed.
    pub key: Option<String>,
    /// The reason why the engine postpones the instance, if it does: an unknown definition or form.
    pub note: Option<String>,
    /// The state ([`State::encode`]).
    pub body: Vec<u8>,
    /// The last change, in milliseconds since 1970.
    pub changed_ms: u64,
}

impl Record {
    /// The record of a state.
    ///
    /// # Errors
    ///
    /// If the state is too large.
    pub fn of(state: &State, partitions: u16, version: u64, epoch: u64) -> Result<Self, EncodeError> {
        Ok(Self {
            id: state.id.clone(),
            partition: partition_of(&state.id, partitions),
            version,
            epoch,
            status: state.status,
            due_ms: state.due_ms(),
            definition: state.version.clone(),
            key: state.key.clone(),
            note: None,
            body: state.encode()?,
            changed_ms: state.changed_ms,
        })
    }
}

/// The status with a stored name, and the note. An instance with a status of a later version is quarantined here, and its note says why.
pub fn status_of(name: &str, note: Option<String>) -> (Status, Option<String>) {
    let read = serde_json::from_value(Value::String(name.into()));
    let words = || format!("the status `{name}` is unknown: upgrade this process");
    let note = note.or_else(|| read.is_err().then(words));
    (read.unwrap_or(Status::Quarantined), note)
}

/// The partition of an instance: the same in every process.
pub fn partition_of(instance: &str, partitions: u16) -> u16 {
    use plimsoll_measure::random::{FNV_BASIS, fnv1a, mix};
    let hash = mix(fnv1a(FNV_BASIS, instance.as_bytes()));
    (hash % u64::from(partitions.max(1))) as u16
}

/// A definition as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployed {
    /// The version.
    pub version: Version,
    /// The definition. If this version of the program cannot read it: the reason and the remedy.
    pub definition: Result<Definition, String>,
}

impl Deployed {
    /// The definition of stored bytes.
    pub fn decode(version: Version, bytes: &[u8]) -> Self {
        let reason = |error: serde_json::Error| match error.classify() {
            Category::Data => {
                format!(
                    "this program cannot read it ({error}): upgrade it, or use a process that is upgraded"
                )
            }
            _ => {
                format!(
                    "its stored text is damaged ({error}): restore the store and restart its processes, or deploy another version"
                )
            }
        };
        Self { version, definition: serde_json::from_slice(bytes).map_err(reason) }
    }
}

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The store has it now.
    New,
    /// The store had it before: the same id.
    Known,
}

/// The name of a signal: its instance and its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalKey {
    /// The instance.
    pub instance: String,
    /// The signal's id.
    pub id: String,
}

impl SignalKey {
    /// The name of a signal.
    pub fn of(signal: &Signal) -> Self {
        Self { instance: signal.instance.clone(), id: signal.id.clone() }
    }
}

/// A request for partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The process, by a name that no other process ever has.
    pub owner: String,
    /// The length of the leases, from now by the store's clock.
    pub ttl_ms: u64,
    /// Partitions that the owner wants to hold in all.
    pub want: usize,
    /// Partitions that the owner gives back.
    pub release: Vec<u16>,
}

/// A held partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The partition.
    pub partition: u16,
    /// The epoch: greater than every earlier owner's.
    pub epoch: u64,
}

/// The owner of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The partition.
    pub partition: u16,
    /// The process.
    pub owner: String,
    /// The epoch.
    pub epoch: u64,
    /// The time until the lease ends by the store's clock, in milliseconds; negative if it has ended.
    pub lease_ms: i64,
}

/// The answer to a request for partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// All partitions that the owner holds now, renewed.
    pub held: Vec<Lease>,
    /// Processes that asked for partitions within the last lease length, this one included.
    pub owners: usize,
    /// Partitions that no process holds after this request.
    pub free: usize,
}

/// Work that is due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// Signals in order of (`due_ms`, `sent_ms`, `id`).
    pub signals: Vec<Signal>,
    /// Due instances in order of `due_ms`. Records of the signals' instances may be among them, to save a `load`.
    pub records: Vec<Record>,
}

/// A change of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The instance after the change. The change applies if the stored version is `record.version - 1`, the
    /// stored epoch is not greater than `record.epoch`, and the store has all consumed signals. A missing
    /// signal was applied before.
    pub record: Record,
    /// Ids of the signals that the change applied, each once.
    pub consumed: Vec<String>,
    /// Ids of signals that earlier changes applied and that the instance forgets with this one. From now on the store recognises them, until
    /// [`Store::forget`]. A waiting repetition of one goes with the change.
    pub forgotten: Vec<String>,
}

impl Commit {
    /// A change that applies no signal.
    pub const fn of(record: Record) -> Self {
        Self { record, consumed: Vec::new(), forgotten: Vec::new() }
    }
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The store has the change.
    Won,
    /// The stored version or epoch was another, or the instance is missing: nothing changed.
    Lost,
}

/// A signal to deliver later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponed {
    /// The signal.
    pub key: SignalKey,
    /// The moment, in milliseconds since 1970.
    pub due_ms: u64,
    /// Deliveries that found no instance.
    pub attempts: u32,
}

/// A dead letter that was sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// The signal.
    pub key: SignalKey,
    /// The operator.
    pub by: String,
    /// The moment, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A selection of instances, in order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Find {
    /// Only with this business key.
    pub key: Option<String>,
    /// Only with this status.
    pub status: Option<Status>,
    /// Only of this definition.
    pub definition: Option<String>,
    /// Only ids after this one.
    pub after: Option<String>,
    /// Instances at most.
    pub limit: usize,
}

/// A selection of tasks, in order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// Only with this status.
    pub status: Option<TaskStatus>,
    /// Only open to one of these roles; if there are none, open to any role.
    pub roles: Vec<String>,
    /// Only assigned to this person.
    pub assignee: Option<String>,
    /// Only of this instance.
    pub instance: Option<String>,
    /// Only ids after this one.
    pub after: Option<String>,
    /// Tasks at most.
    pub limit: usize,
}

/// The durable store. `contract` tests every promise.
///
/// A row that this version cannot read hides no other: a body becomes [`crate::instance::Body::Unreadable`], an unknown status
/// [`Status::Quarantined`] with a note, and an unreadable definition has a version only.
///
/// Acknowledged writes survive a crash of the process and of the store.
pub trait Store: Send + Sync + 'static {
    /// The number of partitions, which never changes in a store.
    fn partitions(&self) -> u16;

    /// Keeps definitions by version. The last one is the latest of its name: a known version that is not the latest becomes the latest again.
    fn deploy(&self, definitions: &[Definition], now_ms: u64) -> impl Future<Output = Stored<()>> + Send;

    /// All definitions, in order of deployment: the latest of each name is its last one.
    fn definitions(&self) -> impl Future<Output = Stored<Vec<Deployed>>> + Send;

    /// A number that changes with every deployment that changes the definitions or their order. Cheap: clients ask for it often.
    fn deployed(&self) -> impl Future<Output = Stored<u64>> + Send {
        async { Ok(self.definitions().await?.len() as u64) }
    }

    /// Inserts new instances, independently of each other. An instance with a known id is not inserted and stays unchanged.
    fn start(&self, records: &[Record]) -> impl Future<Output = Stored<Vec<Inserted>>> + Send;

    /// Inserts signals, independently of each other. A signal with a known (instance, id) is not inserted and stays unchanged. Known are waiting
    /// signals and those that their instances have forgotten.
    fn publish(&self, signals: &[Signal]) -> impl Future<Output = Stored<Vec<Inserted>>> + Send;

    /// Renews all partitions of the owner, claims free ones up to `want`, and gives back others. Time is the store's. A partition is free if its
    /// lease has ended or was given back. Its epoch grows with every claim, and not with a renewal.
    fn lease(&self, request: &LeaseRequest) -> impl Future<Output = Stored<Leases>> + Send;

    /// The owners of all partitions that were ever claimed, in order of partitions.
    fn holders(&self) -> impl Future<Output = Stored<Vec<Holder>>> + Send;

    /// Due signals and instances of partitions: `due_ms <= until_ms`, the earliest first, up to `limit` of each.
    fn due(
        &self,
        partitions: &[u16],
        until_ms: u64,
        limit: usize,
    ) -> impl Future<Output = Stored<Due>> + Send;

    /// Instances by id, in the order of `ids`.
    fn load(&self, ids: &[String]) -> impl Future<Output = Stored<Vec<Option<Record>>>> + Send;

    /// Changes instances, each with a separate compare-and-set, and removes the consumed signals of won changes. A failure may leave some of
    /// them, also those of changes that the store has.
    fn commit(&self, commits: &[Commit]) -> impl Future<Output = Stored<Vec<Committed>>> + Send;

    /// Forgets the signals of partitions that their instances forgot before a moment.
    fn forget(&self, partitions: &[u16], before_ms: u64) -> impl Future<Output = Stored<()>> + Send;

    /// Removes waiting signals. Unknown ones are fine.
    fn remove(&self, signals: &[SignalKey]) -> impl Future<Output = Stored<()>> + Send;

    /// Postpones waiting signals. Unknown ones are fine.
    fn postpone(&self, signals: &[Postponed]) -> impl Future<Output = Stored<()>> + Send;

    /// Keeps dead letters, and then removes their signals. A known dead letter stays as it is.
    fn bury(&self, letters: &[DeadLetter]) -> impl Future<Output = Stored<()>> + Send;

    /// Dead letters in order of (instance, id), after a key.
    fn dead(
        &self,
        after: Option<&SignalKey>,
        limit: usize,
    ) -> impl Future<Output = Stored<Vec<DeadLetter>>> + Send;

    /// Publishes dead letters again as signals that are due at once and have no attempts yet. Then removes the letters. Records the
    /// operator and the moment. Returns the number of letters that existed.
    fn redrive(&self, redrives: &[Redrive]) -> impl Future<Output = Stored<usize>> + Send;

    /// Completed redrives, oldest first.
    fn redriven(&self, limit: usize) -> impl Future<Output = Stored<Vec<Redrive>>> + Send;

    /// Writes rows of the inbox. A row replaces only a row of its id with a smaller version.
    fn write_tasks(&self, rows: &[TaskRow]) -> impl Future<Output = Stored<()>> + Send;

    /// Rows of the inbox.
    fn tasks(&self, inbox: &Inbox) -> impl Future<Output = Stored<Vec<TaskRow>>> + Send;

    /// Instances by key, status and definition.
    fn find(&self, find: &Find) -> impl Future<Output = Stored<Vec<Record>>> + Send;

    /// Instances by key, status and definition, with empty bodies: lists show no states.
    fn list(&self, find: &Find) -> impl Future<Output = Stored<Vec<Record>>> + Send {
        async {
            let mut records = self.find(find).await?;
            records.iter_mut().for_each(|record| record.body.clear());
            Ok(records)
        }
    }

    /// Tells other processes that partitions have new work, and returns at once. A lost message only delays
    /// the work.
    fn announce(&self, _partitions: &[u16]) {}

    /// Waits for news of other processes: partitions with new work. A store without news waits for ever.
    fn news(&self) -> impl Future<Output = Vec<u16>> + Send {
        std::future::pending()
    }

    /// The number of due signals in all partitions, `limit` at most.
    fn backlog(&self, now_ms: u64, limit: usize) -> impl Future<Output = Stored<usize>> + Send;

    /// Whether each signal has a known (instance, id): see [`Store::publish`].
    fn known(&self, signals: &[SignalKey]) -> impl Future<Output = Stored<Vec<bool>>> + Send;

    /// Waiting signals of an instance, in order of their ids.
    fn signals_of(&self, instance: &str, limit: usize) -> impl Future<Output = Stored<Vec<Signal>>> + Send;

    /// Waiting signals in order of (instance, id), after a key: for audits. Forgotten signals may make it slow.
    fn signals(
        &self,
        after: Option<&SignalKey>,
        limit: usize,
    ) -> impl Future<Output = Stored<Vec<Signal>>> + Send;
}

/// Calls functions and HTTP services.
pub trait Services: Send + Sync + 'static {
    /// Makes one attempt. The attempt ends within its time limit.
    fn call(&self, call: &Call) -> impl Future<Output = Result<Value, CallError>> + Send;
}

/// The wall clock and its alarm.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Waits until a moment.
    fn until(&self, at_ms: u64) -> impl Future<Output = ()> + Send;
}
