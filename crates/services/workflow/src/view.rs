//! Shows instances, tasks and dead letters as the API, the commands and the pages print them.

use plimsoll_workflow::definition::Version;
use plimsoll_workflow::explain::{Reason, Visited, explain, history};
use plimsoll_workflow::instance::{Parent, State, Status, TaskRow, TaskStatus};
use plimsoll_workflow::port::Record;
use plimsoll_workflow::program::Program;
use serde::Serialize;
use serde_json::Value;

/// An instance in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The id.
    pub instance: String,
    /// The business key.
    pub key: Option<String>,
    /// The definition's name and hash.
    pub definition: Version,
    /// The status.
    pub status: Status,
    /// The moment at which it continues without a signal, in milliseconds since 1970.
    pub due_ms: Option<u64>,
    /// The last change, in milliseconds since 1970.
    pub changed_ms: u64,
}

impl Row {
    /// The row of a record.
    pub fn of(record: &Record) -> Self {
        Self {
            instance: record.id.clone(),
            key: record.key.clone(),
            definition: record.definition.clone(),
            status: record.status,
            due_ms: record.due_ms,
            changed_ms: record.changed_ms,
        }
    }
}

/// A whole instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instance {
    /// The id, key, definition and status.
    #[serde(flatten)]
    pub row: Row,
    /// The number of its last change.
    pub version: u64,
    /// The start, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// The last error, or the reason why the state cannot be read.
    pub error: Option<String>,
    /// The waiting parent.
    pub parent: Option<Parent>,
    /// The data.
    pub data: Value,
    /// The reasons of its waits.
    pub waits: Vec<Reason>,
    /// The visits that it remembers, in the order in which they began.
    pub history: Vec<Visited>,
    /// Visits that it has forgotten.
    pub forgotten: u64,
}

impl Instance {
    /// The instance of a record. Without its program, nodes have no names.
    pub fn of(record: &Record, program: Option<&Program>) -> Self {
        let row = Row::of(record);
        match State::decode(&record.body) {
            Ok(state) => Self::readable(row, record, &state, program),
            Err(error) => Self { error: Some(error.to_string()), ..Self::empty(row, record.version) },
        }
    }

    fn readable(row: Row, record: &Record, state: &State, program: Option<&Program>) -> Self {
        Self {
            started_ms: Some(state.started_ms),
            // A note of an unknown definition is outdated once the definition is known.
            error: record.note.clone().filter(|_| program.is_none()).or_else(|| state.error.clone()),
            parent: state.parent.clone(),
            data: state.data.clone(),
            waits: explain(program, state).reasons,
            history: history(program, state),
            forgotten: state.history.forgotten,
            ..Self::empty(row, record.version)
        }
    }

    fn empty(row: Row, version: u64) -> Self {
        Self {
            row,
            version,
            started_ms: None,
            error: None,
            parent: None,
            data: Value::Null,
            waits: Vec::new(),
            history: Vec::new(),
            forgotten: 0,
        }
    }
}

/// A status by its name.
///
/// # Errors
///
/// If no status has the name.
pub fn status_of(name: &str) -> Result<Status, String> {
    named(name, "running, compensating, parked, quarantined, done, failed or cancelled")
}

/// The status of a task by its name.
///
/// # Errors
///
/// If no status has the name.
pub fn task_status_of(name: &str) -> Result<TaskStatus, String> {
    named(name, "open, completed or closed")
}

fn named<T: serde::de::DeserializeOwned>(name: &str, known: &str) -> Result<T, String> {
    serde_json::from_value(Value::from(name)).map_err(|_| format!("`{name}` is no status: write {known}"))
}

/// The JSON of a task.
pub fn task(row: &TaskRow) -> Value {
    serde_json::to_value(row).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_by_its_name_and_others_are_listed() {
        assert_eq!(status_of("parked"), Ok(Status::Parked));
        assert_eq!(task_status_of("open"), Ok(TaskStatus::Open));
        assert!(status_of("waiting").unwrap_err().contains("running, compensating"));
    }
}
