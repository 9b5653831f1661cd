//! Turns records, signals and tasks into documents, and documents into them.

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc};
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{Body, DeadLetter, DeadReason, Signal, Status, TaskRow, TaskStatus};
use plimsoll_workflow::port::{Deployed, Record, Redrive, SignalKey, StoreError, Stored, status_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reply::number;

/// A number of the engine as the server stores it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn damaged(what: &str) -> StoreError {
    StoreError::Refused(format!("a stored document is damaged: {what}").into())
}

fn unsigned(document: &RawDocument, key: &str) -> Stored<u64> {
    number(document, key).and_then(|number| u64::try_from(number).ok()).ok_or_else(|| damaged(key))
}

fn text(document: &RawDocument, key: &str) -> Stored<String> {
    document.get_str(key).map(str::to_owned).map_err(|_| damaged(key))
}

fn bytes<'a>(document: &'a RawDocument, key: &str) -> Stored<&'a [u8]> {
    document.get_binary(key).map(|binary| binary.bytes).map_err(|_| damaged(key))
}

/// The variant with a name; none if a later version has written it.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.into())).ok()
}

/// Bytes of the engine.
pub(super) fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// JSON bytes.
pub(super) fn json<T: Serialize>(value: &T) -> Stored<Binary> {
    serde_json::to_vec(value).map(binary).map_err(|error| StoreError::Refused(error.to_string().into()))
}

/// The value of JSON bytes in a field.
pub(super) fn of_json<T: DeserializeOwned>(document: &RawDocument, key: &str) -> Stored<T> {
    serde_json::from_slice(bytes(document, key)?).map_err(|error| damaged(&error.to_string()))
}

/// The fields of an instance without its id. Absent fields keep sparse indexes small.
pub(super) fn fields(record: &Record) -> RawDocumentBuf {
    let mut fields = rawdoc! {
        "v": signed(record.version), "e": signed(record.epoch), "s": record.status.name(),
        "d": &*record.definition.name, "h": &*record.definition.hash, "w": signed(record.changed_ms),
        "b": binary(record.body.clone()),
    };
    if let Some(due_ms) = record.due_ms {
        fields.append(cstr!("due"), signed(due_ms));
    }
    if let Some(key) = &record.key {
        fields.append(cstr!("k"), key.as_str());
    }
    if let Some(note) = &record.note {
        fields.append(cstr!("n"), note.as_str());
    }
    fields
}

/// The document of a new instance.
pub(super) fn instance(record: &Record) -> RawDocumentBuf {
    let mut document = rawdoc! {"_id": &*record.id, "p": i32::from(record.partition)};
    extend(&mut document, &fields(record));
    document
}

/// Appends all elements of another document.
pub(super) fn extend(document: &mut RawDocumentBuf, more: &RawDocument) {
    for (key, value) in more.iter().flatten() {
        document.append(key, value);
    }
}

/// The instance of a document.
///
/// # Errors
///
/// If a field that every version writes is missing.
pub(super) fn record(document: &RawDocument) -> Stored<Record> {
    let optional = |key| document.get_str(key).ok().map(str::to_owned);
    let (status, note) = status_of(document.get_str("s").unwrap_or_default(), optional("n"));
    Ok(Record {
        id: text(document, "_id")?,
        partition: u16::try_from(unsigned(document, "p")?).map_err(|_| damaged("p"))?,
        version: unsigned(document, "v")?,
        epoch: unsigned(document, "e")?,
        status,
        due_ms: unsigned(document, "due").ok(),
        definition: Version { name: text(document, "d")?, hash: text(document, "h")? },
        key: optional("k"),
        note,
        body: bytes(document, "b")?.to_vec(),
        changed_ms: unsigned(document, "w")?,
    })
}

/// The instance of a document for a list. A damaged instance counts as quarantined, with the reason, so that
/// it hides no other and shortens no page.
pub(super) fn found(document: &RawDocument) -> Option<Record> {
    let id = document.get_str("_id").ok()?;
    let damaged = |error: StoreError| Record {
        id: id.to_owned(),
        partition: unsigned(document, "p")
            .ok()
            .and_then(|number| u16::try_from(number).ok())
            .unwrap_or_default(),
        version: unsigned(document, "v").unwrap_or_default(),
        epoch: unsigned(document, "e").unwrap_or_default(),
        status: Status::Quarantined,
        due_ms: unsigned(document, "due").ok(),
        definition: Version {
            name: text(document, "d").unwrap_or_default(),
            hash: text(document, "h").unwrap_or_default(),
        },
        key: document.get_str("k").ok().map(str::to_owned),
        note: Some(error.to_string()),
        body: bytes(document, "b").unwrap_or_default().to_vec(),
        changed_ms: unsigned(document, "w").unwrap_or_default(),
    };
    Some(listed(document).unwrap_or_else(damaged))
}

/// The instance of a document that may have no body.
fn listed(document: &RawDocument) -> Stored<Record> {
    if document.get("b").is_ok_and(|body| body.is_none()) {
        let mut with_body = document.to_owned();
        with_body.append(cstr!("b"), binary(Vec::new()));
        return record(&with_body);
    }
    record(document)
}

/// The `_id` of a signal or a dead letter.
pub(super) fn signal_id(instance: &str, id: &str) -> RawDocumentBuf {
    rawdoc! {"i": instance, "s": id}
}

/// The document of a signal.
pub(super) fn signal(signal: &Signal, partition: u16) -> Stored<RawDocumentBuf> {
    Ok(rawdoc! {
        "_id": signal_id(&signal.instance, &signal.id), "p": i32::from(partition), "due": signed(signal.due_ms),
        "at": signed(signal.sent_ms), "n": i64::from(signal.attempts), "b": body(signal)?,
    })
}

fn body(signal: &Signal) -> Stored<Binary> {
    signal.body.encode().map(binary).map_err(|error| StoreError::Refused(error.to_string().into()))
}

/// The key in a document's `_id`.
pub(super) fn key(document: &RawDocument) -> Stored<SignalKey> {
    let id = document.get_document("_id").map_err(|_| damaged("_id"))?;
    Ok(SignalKey { instance: text(id, "i")?, id: text(id, "s")? })
}

/// The signal of a document.
pub(super) fn of_signal(document: &RawDocument) -> Stored<Signal> {
    let SignalKey { instance, id } = key(document)?;
    Ok(Signal {
        instance,
        id,
        due_ms: unsigned(document, "due").unwrap_or_default(),
        sent_ms: unsigned(document, "at").unwrap_or_default(),
        attempts: u32::try_from(unsigned(document, "n").unwrap_or_default()).unwrap_or(u32::MAX),
        body: Body::decode(bytes(document, "b").unwrap_or_default()),
    })
}

/// The document of a dead letter.
pub(super) fn letter(letter: &DeadLetter, partition: u16) -> Stored<RawDocumentBuf> {
    let mut document = signal(&letter.signal, partition)?;
    document.append(cstr!("why"), letter.reason.name());
    document.append(cstr!("dead"), signed(letter.buried_ms));
    Ok(document)
}

/// The dead letter of a document.
pub(super) fn of_letter(document: &RawDocument) -> Stored<DeadLetter> {
    Ok(DeadLetter {
        signal: of_signal(document)?,
        reason: document.get_str("why").ok().and_then(named).unwrap_or(DeadReason::Unreadable),
        buried_ms: unsigned(document, "dead").unwrap_or_default(),
    })
}

/// The definition of a document.
pub(super) fn deployed(document: &RawDocument) -> Stored<Deployed> {
    let id = document.get_document("_id").map_err(|_| damaged("_id"))?;
    let version = Version { name: text(id, "n")?, hash: text(id, "h")? };
    Ok(Deployed::decode(version, bytes(document, "b").unwrap_or_default()))
}

/// The document of a redrive.
pub(super) fn redrive(redrive: &Redrive) -> RawDocumentBuf {
    rawdoc! {"i": &*redrive.key.instance, "s": &*redrive.key.id, "by": &*redrive.by, "at": signed(redrive.at_ms)}
}

/// The redrive of a document.
pub(super) fn of_redrive(document: &RawDocument) -> Stored<Redrive> {
    let key = SignalKey { instance: text(document, "i")?, id: text(document, "s")? };
    Ok(Redrive { key, by: text(document, "by")?, at_ms: unsigned(document, "at")? })
}

/// The task of a document: its fields if its content cannot be read.
pub(super) fn of_task(document: &RawDocument) -> Stored<TaskRow> {
    let error = match of_json(document, "b") {
        Ok(task) => return Ok(task),
        Err(error) => error,
    };
    let status = document.get_str("s").ok().and_then(named).unwrap_or(TaskStatus::Closed);
    let (id, instance) = (text(document, "_id")?, text(document, "i").unwrap_or_default());
    let version = unsigned(document, "v").unwrap_or_default();
    Ok(TaskRow::unreadable(id, instance, version, status, &error.to_string()))
}

/// The name of a task's status.
pub(super) const fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Open => "open",
        TaskStatus::Completed => "completed",
        TaskStatus::Closed => "closed",
    }
}

/// The fields of a task that a newer row replaces.
pub(super) fn task(row: &TaskRow) -> Stored<RawDocumentBuf> {
    let mut fields = rawdoc! {
        "v": signed(row.version), "i": &*row.instance, "s": status(row.status), "r": texts(&row.roles), "b": json(row)?,
    };
    if let Some(assignee) = &row.assignee {
        fields.append(cstr!("a"), assignee.as_str());
    }
    Ok(fields)
}

/// An array of texts.
pub(super) fn texts(texts: &[String]) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    texts.iter().for_each(|text| array.push(text.as_str()));
    array
}
