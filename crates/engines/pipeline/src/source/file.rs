//! Reads a file of JSON lines or BSON documents.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_measure::clock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Cause, CauseClass, Fate, Record};
use crate::flow::{Assignment, Assignments};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};
use crate::position::{Partition, Position};
use crate::source::fingerprint::Fingerprint;
use crate::source::resumable_file::{self, ResumableFile};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON value per line. Empty lines are skipped.
    Ndjson,
    /// BSON documents back to back, as `mongodump` writes them.
    Bson,
}

/// The `file` source of a pipeline file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    /// The file.
    pub path: PathBuf,
    /// The format.
    pub format: Format,
}

/// Reads a file from its position to its end. An event's offset is the place of its first byte in the file.
/// The number of its partition distinguishes the file from earlier ones of the same path.
pub struct File {
    settings: FileSettings,
    reader: Option<BufReader<fs::File>>,
    open: Option<Open>,
    at: u64,
    appended_ms: u64,
    one: Vec<u8>,
}

/// An open file.
#[derive(Clone)]
struct Open {
    assignment: Arc<Assignment>,
    fingerprint: Fingerprint,
    /// The partition of its events.
    partition: Partition,
}

/// The result of reading one event.
enum One {
    /// The buffer holds the event.
    Whole,
    /// The event exceeds the limit. The buffer holds its beginning.
    Oversize,
    /// The file ended.
    End,
}

/// The size of a BSON document's length field, in bytes.
const LENGTH_BYTES: usize = 4;
/// The shortest BSON document, in bytes.
const BSON_BYTES_MIN: usize = 5;

impl File {
    /// A source of a file that is opened later.
    pub const fn new(settings: FileSettings) -> Self {
        Self { settings, reader: None, open: None, at: 0, appended_ms: 0, one: Vec::new() }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{} at byte {}: {reason}", self.settings.path.display(), self.at))
    }

    /// Reads the next event into the buffer `one`, and moves on. Returns the event's offset and the result.
    fn next(&mut self, bytes_max: usize) -> Result<(u64, One), SourceError> {
        self.one.clear();
        let start = self.at;
        let one = match self.settings.format {
            Format::Ndjson => self.next_line(bytes_max),
            Format::Bson => self.next_document(bytes_max),
        };
        Ok((start, one.map_err(|reason| self.failed(reason))?))
    }

    fn next_line(&mut self, bytes_max: usize) -> Result<One, String> {
        let Some(reader) = &mut self.reader else { return Ok(One::End) };
        let words = |error: std::io::Error| error.to_string();
        let mut taken = reader.take(bytes_max as u64 + 1).read_until(b'\n', &mut self.one).map_err(words)?;
        if taken == 0 {
            return Ok(One::End);
        }
        let oversize = taken > bytes_max && self.one.last() != Some(&b'\n');
        if oversize {
            self.one.truncate(bytes_max);
            taken += skip_line(reader).map_err(words)?;
        }
        self.at += taken as u64;
        let end = self.one.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        self.one.truncate(end);
        Ok(if oversize { One::Oversize } else { One::Whole })
    }

    fn next_document(&mut self, bytes_max: usize) -> Result<One, String> {
        let Some(reader) = &mut self.reader else { return Ok(One::End) };
        let words = |error: std::io::Error| error.to_string();
        reader.take(LENGTH_BYTES as u64).read_to_end(&mut self.one).map_err(words)?;
        if self.one.is_empty() {
            return Ok(One::End);
        }
        let Some(length) = self.one.first_chunk().map(|length| u32::from_le_bytes(*length) as usize) else {
            return Err("the file ends within a document".into());
        };
        if !(BSON_BYTES_MIN..=i32::MAX as usize).contains(&length) {
            return Err(format!("a BSON document should begin here, but its length would be {length}"));
        }
        let kept = length.min(bytes_max.max(LENGTH_BYTES)) - LENGTH_BYTES;
        let read = reader.take(kept as u64).read_to_end(&mut self.one).map_err(words)?;
        let beyond = length - LENGTH_BYTES - kept;
        let skipped = std::io::copy(&mut reader.take(beyond as u64), &mut std::io::sink()).map_err(words)?;
        if read < kept || skipped < beyond as u64 {
            return Err("the file ends within a document".into());
        }
        self.at += length as u64;
        Ok(if beyond > 0 { One::Oversize } else { One::Whole })
    }

    fn push(&self, batch: &mut Batch, offset: u64, one: &One, bytes_max: usize) {
        batch.push(Record { offset, appended_ms: self.appended_ms, key: None, payload: Some(&self.one) });
        if matches!(one, One::Oversize) {
            let words = format!("it is longer than {bytes_max} bytes; only its beginning is kept");
            let last = batch.events().len() - 1;
            let cause = Cause::new("file", CauseClass::Oversize, words);
            batch.sift(|_, index| if index == last { Fate::Reject(cause.clone()) } else { Fate::Keep });
        }
    }
}

/// Skips to the end of a line. Returns the number of bytes.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<usize> {
    let mut skipped = 0;
    loop {
        let ahead = reader.fill_buf()?;
        let (end, found) = match ahead.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (ahead.len(), ahead.is_empty()),
        };
        reader.consume(end);
        skipped += end;
        if found {
            return Ok(skipped);
        }
    }
}

impl Source for File {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let ResumableFile { reader, assignment, fingerprint, at, .. } =
            resumable_file::open(&self.settings.path, assignments, "read")?;
        let partition = Partition::new(Arc::clone(&assignment.partition().topic), fingerprint.number());
        (self.reader, self.at) = (Some(reader), at);
        self.open = Some(Open { assignment, fingerprint, partition });
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(Open { assignment, fingerprint, partition }) = self.open.clone() else {
            return Ok(Read::End);
        };
        let limits = intake.limits();
        self.appended_ms = clock::wall_ms();
        let mut batch = intake.batch(&partition);
        let mut ended = Ok(false);
        while batch.events_read() < intake.space().events.min(limits.batch_events_max)
            && batch.bytes() < intake.space().bytes
            && matches!(ended, Ok(false))
        {
            match self.next(limits.event_bytes_max) {
                Ok((_, One::End)) => ended = Ok(true),
                Ok((_, One::Whole)) if self.one.is_empty() => {}
                Ok((offset, one)) => self.push(&mut batch, offset, &one, limits.event_bytes_max),
                Err(error) => ended = Err(error),
            }
        }
        let found = batch.events_read() > 0;
        if found {
            batch.set_position(fingerprint.position(self.at));
            intake.hand_over(&assignment, batch);
        }
        // Events read before an invalid one are handed over. Otherwise they would never be written, since
        // every start reads them together with it.
        match ended? {
            _ if found => Ok(Read::Some),
            true => Ok(Read::End),
            false => Ok(Read::Idle),
        }
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
