//! Appends events to a file.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::torn;
use crate::event::{Batch, Event};
use crate::port::sink::{
    FailureClass, Identity, Order, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};

/// What a file gets of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The payload, one a line; it must hold no line break.
    #[default]
    Lines,
    /// The payload, one behind the other: BSON documents.
    Raw,
    /// A JSON object a line with topic, partition, offset, time, key, headers and payload: for dead letters. What is no text
    /// is written in hexadecimal, as `{"hex": …}`.
    Whole,
}

/// A file to write, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSinkSettings {
    /// The file; events are appended to what is there.
    pub path: PathBuf,
    /// What it gets of each event.
    #[serde(default)]
    pub form: Form,
}

/// Appends events to a file, and calls them written when they are on the disk.
///
/// What a full disk left of a batch is cut off again. What a crash left of a line or a document is put aside, into a file of the
/// same name with `.torn` at its end, before the first batch is appended. An event that comes twice stands there twice.
#[derive(Clone, Debug)]
pub struct FileSink {
    settings: FileSinkSettings,
    file: Arc<Mutex<Option<Appended>>>,
}

#[derive(Debug)]
struct Appended {
    file: fs::File,
    /// Bytes up to the end of the last batch that is on the disk.
    good: u64,
    /// Whether something behind that could not be cut off.
    torn: bool,
}

impl FileSink {
    /// A file that is not open yet.
    pub fn new(settings: FileSinkSettings) -> Self {
        Self { settings, file: Arc::default() }
    }

    fn refused(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::Refused(format!("{}: {error}", self.settings.path.display()))
    }
}

impl SinkFactory for FileSink {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Copies, order: Order::Any, buries: false }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            let file = fs::OpenOptions::new().read(true).append(true).create(true).open(&self.settings.path);
            let file = file.map_err(|error| self.refused(error))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
                self.refused("another sink or process writes to it: give each a file of its own")
            })?;
            let folder = self.settings.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder =
                fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
            folder.map_err(|error| self.refused(error))?;
            let good = torn::mend(&self.settings.path, &file, self.settings.form);
            let good = good.map_err(|error| self.refused(error))?;
            *open = Some(Appended { file, good, torn: false });
        }
        let (form, file) = (self.settings.form, Arc::clone(&self.file));
        Ok(Box::new(Writer { form, file, written: Vec::new(), done: VecDeque::new() }))
    }
}

struct Writer {
    form: Form,
    file: Arc<Mutex<Option<Appended>>>,
    written: Vec<u8>,
    done: VecDeque<Settled>,
}

impl Sink for Writer {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        let verdict = self.write(&batch);
        self.done.push_back(Settled { batch, verdict });
    }

    fn settle(&mut self, _wait: Duration) -> Option<Settled> {
        self.done.pop_front()
    }
}

impl Writer {
    fn write(&mut self, batch: &Batch) -> Verdict {
        self.written.clear();
        for event in batch.events() {
            if !render(self.form, &mut self.written, batch, event) {
                return Verdict::failed(
                    FailureClass::Poisoned,
                    "a payload with a line break cannot be a line",
                );
            }
        }
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match open.as_mut().map(|file| file.append(&self.written)) {
            Some(Ok(())) => Verdict::WRITTEN,
            Some(Err(error)) => Verdict::failed(FailureClass::Passing, error.to_string()),
            None => Verdict::failed(FailureClass::Final, "the file is not open"),
        }
    }
}

impl Appended {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.torn {
            self.file.set_len(self.good)?;
            self.torn = false;
        }
        let appended = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        match appended {
            Ok(()) => {
                self.good += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.torn = self.file.set_len(self.good).is_err();
                Err(error)
            }
        }
    }
}

/// Whether an event could be written in this form.
fn render(form: Form, out: &mut Vec<u8>, batch: &Batch, event: &Event) -> bool {
    let payload = batch.payload(event).unwrap_or_default();
    match form {
        Form::Lines if payload.contains(&b'\n') => return false,
        // At the next start documents are found by their lengths.
        Form::Raw if !is_framed(payload) => return false,
        Form::Raw => out.extend_from_slice(payload),
        Form::Lines => {
            out.extend_from_slice(payload);
            out.push(b'\n');
        }
        Form::Whole => {
            out.extend_from_slice(whole(batch, event).to_string().as_bytes());
            out.push(b'\n');
        }
    }
    true
}

/// Whether the bytes say their own length, as a BSON document does.
fn is_framed(payload: &[u8]) -> bool {
    let length = payload.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    length == Some(payload.len()) && payload.last() == Some(&0)
}

fn whole(batch: &Batch, event: &Event) -> Value {
    let headers: Map<String, Value> = batch
        .headers(event)
        .map(|(name, value)| (name.to_owned(), value.map_or(Value::Null, text_or_hex)))
        .collect();
    json!({
        "topic": &*batch.partition().topic,
        "partition": batch.partition().index,
        "offset": event.offset,
        "appended_ms": event.appended_ms,
        "key": batch.key(event).map(text_or_hex),
        "headers": headers,
        "payload": batch.payload(event).map(text_or_hex),
    })
}

fn text_or_hex(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({"hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;

    fn batch(payloads: &[&[u8]]) -> Batch {
        let mut batch = Batch::new(Partition::new("t", 1));
        for (offset, payload) in payloads.iter().enumerate() {
            let record =
                Record { offset: offset as u64, appended_ms: 5, key: Some(b"k"), payload: Some(payload) };
            batch.push_with(record, [("h", Some(&b"\xff"[..]))]);
        }
        batch
    }

    fn written(form: Form, payloads: &[&[u8]]) -> (Verdict, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut sink = FileSink::new(FileSinkSettings { path: path.clone(), form }).build(0).unwrap();
        sink.submit(batch(payloads));
        let verdict = sink.settle(Duration::ZERO).unwrap().verdict;
        (verdict, fs::read_to_string(path).unwrap())
    }

    #[test]
    fn events_are_appended_in_the_form_that_was_asked_for() {
        assert_eq!(written(Form::Lines, &[b"a", b"b"]), (Verdict::WRITTEN, "a\nb\n".into()));
        let document: &[u8] = &[5, 0, 0, 0, 0];
        assert_eq!(written(Form::Raw, &[document, document]).1.len(), 10);
        assert!(matches!(written(Form::Raw, &[b"no document"]).0, Verdict::Failed(_)));
        let (_, whole) = written(Form::Whole, &[b"a\nb"]);
        let expected = r#"{"topic":"t","partition":1,"offset":0,"appended_ms":5,"key":"k","headers":{"h":{"hex":"ff"}},"payload":"a\nb"}"#;
        assert_eq!(whole.trim_end(), expected);
    }

    #[test]
    fn a_line_break_in_a_line_poisons_the_batch_and_writes_nothing() {
        let (verdict, text) = written(Form::Lines, &[b"a", b"b\nc"]);
        assert!(matches!(verdict, Verdict::Failed(failure) if failure.class == FailureClass::Poisoned));
        assert_eq!(text, "");
    }

    #[test]
    fn a_full_disk_fails_for_now_and_says_so() {
        let settings = FileSinkSettings { path: "/dev/full".into(), form: Form::Lines };
        let mut sink = FileSink::new(settings).build(0).unwrap();
        sink.submit(batch(&[b"a"]));
        let verdict = sink.settle(Duration::ZERO).unwrap().verdict;
        let Verdict::Failed(failure) = verdict else { panic!("{verdict:?}") };
        assert_eq!(failure.class, FailureClass::Passing);
    }

    #[test]
    fn what_a_failure_left_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "good\n").unwrap();
        let file = fs::OpenOptions::new().read(true).open(&path).unwrap();
        let mut appended = Appended { file, good: 5, torn: false };
        assert!(appended.append(b"bad\n").is_err(), "opened to read only");
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut appended = Appended { file, good: 5, torn: false };
        appended.file.write_all(b"half").unwrap();
        appended.file.set_len(appended.good).unwrap();
        appended.append(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "good\nnext\n");
    }
}
