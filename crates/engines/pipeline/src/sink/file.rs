//! Appends events to a file.

use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::form::{Form, render};
use super::tail_recovery;
use crate::event::Batch;
use crate::port::sink::{
    FailureClass, Identity, Order, Promise, Settled, Sink, SinkError, SinkFactory, Verdict,
};

/// The `file` sink of a pipeline file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSinkSettings {
    /// The file. Events are appended to its content.
    pub path: PathBuf,
    /// The form of each event.
    #[serde(default)]
    pub form: Form,
}

/// Appends events to a file. They count as written once they are on the disk.
///
/// A partial batch left by a full disk is truncated. A partial line or document left by a crash is moved to a file with the
/// added ending `.torn` before the first batch is appended. A repeated event is written a second time.
#[derive(Clone, Debug)]
pub struct FileSink {
    settings: FileSinkSettings,
    file: Arc<Mutex<Option<Appended>>>,
}

#[derive(Debug)]
struct Appended {
    file: fs::File,
    /// Bytes up to the end of the last batch on the disk.
    good: u64,
    /// Whether bytes of a failed batch remain after `good`.
    torn: bool,
    /// Whether it is a device, which cannot be truncated.
    is_device: bool,
}

impl FileSink {
    /// A sink of a file that is opened later.
    pub fn new(settings: FileSinkSettings) -> Self {
        Self { settings, file: Arc::default() }
    }

    fn open(&self) -> Result<Appended, SinkError> {
        let path = &self.settings.path;
        let file = fs::OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| self.refused(error))?;
        let is_device = !file.metadata().map_err(|error| self.refused(error))?.is_file();
        // A device may be shared.
        if !is_device {
            flock(&file, FlockOperation::NonBlockingLockExclusive)
                .map_err(|_| self.refused("another sink or process writes to it: give each its own file"))?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        folder.map_err(|error| self.refused(error))?;
        let good =
            tail_recovery::recover(path, &file, self.settings.form).map_err(|error| self.refused(error))?;
        Ok(Appended { file, good, torn: false, is_device })
    }

    fn refused(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::Refused(format!("{}: {error}", self.settings.path.display()))
    }
}

impl SinkFactory for FileSink {
    fn promise(&self) -> Promise {
        Promise { durable: true, identity: Identity::Copies, order: Order::Any, writes_dead_letters: false }
    }

    fn build(&self, _worker: usize) -> Result<Box<dyn Sink>, SinkError> {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = Some(self.open()?);
        }
        let (settings, file) = (self.settings.clone(), Arc::clone(&self.file));
        Ok(Box::new(Writer { settings, file, written: Vec::new(), done: VecDeque::new() }))
    }
}

struct Writer {
    settings: FileSinkSettings,
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
            if let Err(reason) = render(self.settings.form, &mut self.written, batch, event) {
                return Verdict::failed(FailureClass::RefusedEvent, reason);
            }
        }
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match open.as_mut().map(|file| file.append(&self.written)) {
            Some(Ok(())) => Verdict::WRITTEN,
            Some(Err(error)) => Verdict::failed(FailureClass::Transient, self.describe(&error)),
            None => Verdict::failed(FailureClass::Final, "the file is not open"),
        }
    }
}

impl Writer {
    fn describe(&self, error: &std::io::Error) -> String {
        let advice = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ": free some space there, and the pipeline continues"
            }
            _ => "",
        };
        format!("{}: {error}{advice}", self.settings.path.display())
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
                self.torn = !self.is_device && self.file.set_len(self.good).is_err();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

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
    fn events_are_appended_in_the_chosen_form() {
        assert_eq!(written(Form::Lines, &[b"a", b"b"]), (Verdict::WRITTEN, "a\nb\n".into()));
        let document: &[u8] = &[5, 0, 0, 0, 0];
        assert_eq!(written(Form::Raw, &[document, document]).1.len(), 10);
        assert!(matches!(written(Form::Raw, &[b"no document"]).0, Verdict::Failed(_)));
        let (_, whole) = written(Form::Whole, &[b"a\nb"]);
        let expected = r#"{"topic":"t","partition":1,"offset":0,"appended_ms":5,"key":"k","headers":{"h":{"hex":"ff"}},"payload":"a\nb"}"#;
        assert_eq!(whole.trim_end(), expected);
    }

    #[test]
    fn a_line_break_in_a_line_fails_the_batch_and_writes_no_event() {
        let (verdict, text) = written(Form::Lines, &[b"a", b"b\nc"]);
        assert!(matches!(verdict, Verdict::Failed(failure) if failure.class == FailureClass::RefusedEvent));
        assert_eq!(text, "");
    }

    #[test]
    fn a_delete_is_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let write = |form: Form| {
            let mut batch = Batch::new(Partition::new("t", 1));
            batch.push(Record { key: Some(b"k"), ..Record::default() });
            let mut sink = FileSink::new(FileSinkSettings { path: path.clone(), form }).build(0).unwrap();
            sink.submit(batch);
            sink.settle(Duration::ZERO).unwrap().verdict
        };
        for form in [Form::Lines, Form::Raw] {
            let Verdict::Failed(failure) = write(form) else { panic!("{form:?} cannot hold it") };
            assert_eq!(failure.class, FailureClass::RefusedEvent);
            assert!(failure.reason.contains("no payload") && failure.reason.contains("`form: whole`"));
            assert_eq!(fs::read_to_string(&path).unwrap(), "");
        }
        assert_eq!(write(Form::Whole), Verdict::WRITTEN);
        assert!(fs::read_to_string(&path).unwrap().contains(r#""key":"k","headers":{},"payload":null"#));
    }

    #[test]
    fn a_full_disk_is_a_transient_failure() {
        let settings = FileSinkSettings { path: "/dev/full".into(), form: Form::Lines };
        let mut sink = FileSink::new(settings).build(0).unwrap();
        sink.submit(batch(&[b"a"]));
        let verdict = sink.settle(Duration::ZERO).unwrap().verdict;
        let Verdict::Failed(failure) = verdict else { panic!("{verdict:?}") };
        assert_eq!(failure.class, FailureClass::Transient);
        let words = failure.reason;
        assert!(
            words.starts_with("/dev/full: No space left") && words.contains("free some space"),
            "{words}"
        );
    }

    #[test]
    fn a_partial_batch_is_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "good\n").unwrap();
        let file = fs::OpenOptions::new().read(true).open(&path).unwrap();
        let mut appended = Appended { file, good: 5, torn: false, is_device: false };
        assert!(appended.append(b"bad\n").is_err(), "opened to read only");
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut appended = Appended { file, good: 5, torn: false, is_device: false };
        appended.file.write_all(b"half").unwrap();
        appended.file.set_len(appended.good).unwrap();
        appended.append(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "good\nnext\n");
    }
}
