//! Turns records and signals into columns, and rows into records and signals.

use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{Body, DeadLetter, DeadReason, Signal, TaskRow, TaskStatus};
use plimsoll_workflow::port::{Record, StoreError, Stored, status_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A parameter of a statement.
type Param<'a> = &'a (dyn ToSql + Sync);

/// A number of the engine as the server stores it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A value as JSON.
pub(super) fn json<T: Serialize>(value: &T) -> Stored<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StoreError::Refused(error.to_string().into()))
}

/// The variant with this name; `None` for an unknown name, which a later version has written.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.into())).ok()
}

/// The record in the columns from `at` on.
pub(super) fn record(row: &Row, at: usize) -> Record {
    let (status, note) = status_of(row.get(at + 4), row.get(at + 9));
    Record {
        id: row.get(at),
        partition: u16::try_from(row.get::<_, i16>(at + 1)).unwrap_or(0),
        version: unsigned(row.get(at + 2)),
        epoch: unsigned(row.get(at + 3)),
        status,
        due_ms: row.get::<_, Option<i64>>(at + 5).map(unsigned),
        definition: Version { name: row.get(at + 6), hash: row.get(at + 7) },
        key: row.get(at + 8),
        note,
        body: row.get(at + 10),
        changed_ms: unsigned(row.get(at + 11)),
    }
}

/// The signal in the first columns.
pub(super) fn signal(row: &Row) -> Signal {
    Signal {
        instance: row.get(0),
        id: row.get(1),
        due_ms: unsigned(row.get(2)),
        sent_ms: unsigned(row.get(3)),
        attempts: u32::try_from(row.get::<_, i32>(4)).unwrap_or(0),
        body: Body::decode(row.get(5)),
    }
}

/// The number of a signal's columns.
pub(super) const SIGNAL: usize = 6;

/// The dead letter of a row.
pub(super) fn letter(row: &Row) -> DeadLetter {
    DeadLetter {
        signal: signal(row),
        reason: named(row.get(SIGNAL)).unwrap_or(DeadReason::Unreadable),
        buried_ms: unsigned(row.get(SIGNAL + 1)),
    }
}

/// The task of a row. If its body cannot be read, the task consists of the other columns and the error.
pub(super) fn task(row: &Row) -> TaskRow {
    serde_json::from_slice(row.get(0)).unwrap_or_else(|error| {
        let status = named(row.get(4)).unwrap_or(TaskStatus::Closed);
        TaskRow::unreadable(row.get(1), row.get(2), unsigned(row.get(3)), status, &error.to_string())
    })
}

/// Signals with the bytes of their bodies.
pub(super) fn encoded<'a>(signals: impl Iterator<Item = &'a Signal>) -> Stored<Vec<(&'a Signal, Vec<u8>)>> {
    let encode = |signal: &'a Signal| match signal.body.encode() {
        Ok(body) => Ok((signal, body)),
        Err(error) => Err(StoreError::Refused(error.to_string().into())),
    };
    signals.map(encode).collect()
}

/// Signals as columns.
#[derive(Default)]
pub(super) struct Signals<'a> {
    pub(super) instances: Vec<&'a str>,
    pub(super) ids: Vec<&'a str>,
    pub(super) partitions: Vec<i16>,
    pub(super) due_ms: Vec<i64>,
    pub(super) sent_ms: Vec<i64>,
    pub(super) attempts: Vec<i32>,
    pub(super) bodies: Vec<&'a [u8]>,
}

impl<'a> Signals<'a> {
    pub(super) fn of(signals: &'a [(&'a Signal, Vec<u8>)], partition: impl Fn(&str) -> i16) -> Self {
        let mut columns = Self::default();
        for (signal, body) in signals {
            columns.instances.push(&signal.instance);
            columns.ids.push(&signal.id);
            columns.partitions.push(partition(&signal.instance));
            columns.due_ms.push(signed(signal.due_ms));
            columns.sent_ms.push(signed(signal.sent_ms));
            columns.attempts.push(i32::try_from(signal.attempts).unwrap_or(i32::MAX));
            columns.bodies.push(body);
        }
        columns
    }

    /// The parameters of a statement.
    pub(super) fn params(&self) -> [Param<'_>; 7] {
        [
            &self.instances,
            &self.ids,
            &self.partitions,
            &self.due_ms,
            &self.sent_ms,
            &self.attempts,
            &self.bodies,
        ]
    }
}

/// Instances as columns.
#[derive(Default)]
pub(super) struct Records<'a> {
    pub(super) ids: Vec<&'a str>,
    pub(super) partitions: Vec<i16>,
    pub(super) versions: Vec<i64>,
    pub(super) epochs: Vec<i64>,
    pub(super) statuses: Vec<&'static str>,
    pub(super) due_ms: Vec<Option<i64>>,
    pub(super) definitions: Vec<&'a str>,
    pub(super) hashes: Vec<&'a str>,
    pub(super) keys: Vec<Option<&'a str>>,
    pub(super) notes: Vec<Option<&'a str>>,
    pub(super) bodies: Vec<&'a [u8]>,
    pub(super) changed_ms: Vec<i64>,
}

impl<'a> Records<'a> {
    pub(super) fn of(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut columns = Self::default();
        for record in records {
            columns.ids.push(&record.id);
            columns.partitions.push(i16::try_from(record.partition).unwrap_or(i16::MAX));
            columns.versions.push(signed(record.version));
            columns.epochs.push(signed(record.epoch));
            columns.statuses.push(record.status.name());
            columns.due_ms.push(record.due_ms.map(signed));
            columns.definitions.push(&record.definition.name);
            columns.hashes.push(&record.definition.hash);
            columns.keys.push(record.key.as_deref());
            columns.notes.push(record.note.as_deref());
            columns.bodies.push(&record.body);
            columns.changed_ms.push(signed(record.changed_ms));
        }
        columns
    }

    /// The parameters of a statement that changes instances. The partition never changes.
    pub(super) fn changed(&self) -> [Param<'_>; 11] {
        [
            &self.ids,
            &self.versions,
            &self.epochs,
            &self.statuses,
            &self.due_ms,
            &self.definitions,
            &self.hashes,
            &self.keys,
            &self.notes,
            &self.bodies,
            &self.changed_ms,
        ]
    }
}
