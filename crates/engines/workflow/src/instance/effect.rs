//! Defines the effects of an instance outside of itself. They are durable with the change that caused them,
//! and done afterwards.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Signal;
use super::signal::{bytes_of, weight};

/// An effect that is not done yet. Doing it twice has the result of doing it once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The number, counted by the instance.
    #[serde(rename = "n")]
    pub number: u64,
    /// The work.
    #[serde(rename = "w")]
    pub work: Work,
}

impl Effect {
    /// The weight in memory.
    pub(crate) fn weight(&self) -> usize {
        match &self.work {
            Work::Signal(signal) => signal.weight(),
            Work::Task(row) => weight(bytes_of(&row.payload)),
            Work::Start(request) => weight(bytes_of(&request.input)),
            Work::Bury(letter) => letter.signal.weight(),
        }
    }
}

/// The work of an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Starts an instance, unless an instance with the id exists.
    Start(StartRequest),
    /// Sends a signal.
    Signal(Signal),
    /// Writes the row of a task in the inbox, unless a newer row is there.
    Task(TaskRow),
    /// Keeps a signal that can no longer be applied.
    Bury(DeadLetter),
}

/// The instance to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartRequest {
    /// The id.
    pub id: String,
    /// The definition's name. The newest version applies.
    pub definition: String,
    /// The business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The instance that waits for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The number of ancestors.
    #[serde(default)]
    pub depth: u16,
    /// The first data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
}

/// The waiting place of a parent instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The instance.
    pub instance: String,
    /// The visit of the waiting token.
    pub visit: u64,
}

/// A row of the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The id: the instance's id, `/` and the visit. A wait has one task.
    pub id: String,
    /// The number of the effect that wrote the row. A row replaces only rows with smaller numbers.
    pub version: u64,
    /// The instance.
    pub instance: String,
    /// The business key.
    pub key: Option<String>,
    /// The visit of the waiting token.
    pub visit: u64,
    /// The line for the inbox.
    pub title: String,
    /// Roles that may act; an empty list: any person.
    pub roles: Vec<String>,
    /// The data that the person sees.
    pub payload: Value,
    /// The status.
    pub status: TaskStatus,
    /// The person to whom the task is assigned.
    pub assignee: Option<String>,
    /// The reason why the last action was refused.
    pub refused: Option<String>,
    /// The moment of the timeout.
    pub due_ms: Option<u64>,
    /// The last change, in milliseconds since 1970.
    pub changed_ms: u64,
}

impl TaskRow {
    /// A row whose content this version cannot read: only its columns are known.
    pub fn unreadable(id: String, instance: String, version: u64, status: TaskStatus, why: &str) -> Self {
        Self {
            id,
            version,
            instance,
            key: None,
            visit: 0,
            title: format!("unreadable: {why}"),
            roles: Vec::new(),
            payload: Value::Null,
            status,
            assignee: None,
            refused: None,
            due_ms: None,
            changed_ms: 0,
        }
    }
}

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits for a person.
    Open,
    /// Completed.
    Completed,
    /// No longer needed: a timeout, a cancellation, another branch.
    Closed,
}

/// A signal that could not be applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The signal.
    pub signal: Signal,
    /// The reason.
    pub reason: DeadReason,
    /// The moment, in milliseconds since 1970.
    pub buried_ms: u64,
}

/// The reason why a signal could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// No instance has the id.
    UnknownInstance,
    /// The instance had ended before the signal came.
    Ended,
    /// The instance ended without waiting for the signal.
    Unused,
    /// The instance keeps too many signals that it does not wait for.
    Full,
    /// The wait that the signal names is over.
    Stale,
    /// The signal asks for a change that is impossible now.
    Refused,
    /// The instance is quarantined.
    Quarantined,
    /// This version cannot read the signal, or the reason.
    Unreadable,
}

impl DeadReason {
    /// The name in stores and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownInstance => "unknown_instance",
            Self::Ended => "ended",
            Self::Unused => "unused",
            Self::Full => "full",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::Quarantined => "quarantined",
            Self::Unreadable => "unreadable",
        }
    }
}
