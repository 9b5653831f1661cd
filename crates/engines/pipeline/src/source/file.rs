//! Reads a file of JSON lines or BSON documents.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_measure::clock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Cause, CauseClass, Fate, Record};
use crate::flow::{Lane, Lanes};
use crate::place::{Partition, Position};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};
use crate::source::opened::{self, Opened};
use crate::source::seen::Seen;

/// How a file holds its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON value a line; empty lines are none.
    Ndjson,
    /// BSON documents one behind the other, as `mongodump` writes them.
    Bson,
}

/// A file to read, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    /// The file.
    pub path: PathBuf,
    /// How it holds its events.
    pub format: Format,
}

/// Reads a file from where it was to its end. An event's offset is where it begins, in bytes; the number of its partition tells
/// the file from another one that had its path.
pub struct File {
    settings: FileSettings,
    reader: Option<BufReader<fs::File>>,
    open: Option<Open>,
    at: u64,
    appended_ms: u64,
    one: Vec<u8>,
}

/// What there is of a file that is open.
#[derive(Clone)]
struct Open {
    lane: Arc<Lane>,
    seen: Seen,
    /// Where its events come from.
    partition: Partition,
}

/// What came of reading one event.
enum One {
    /// It is in the buffer.
    Whole,
    /// It is longer than the limit; so much of it is in the buffer.
    Oversize,
    /// There is no more.
    End,
}

/// Bytes of the head of a BSON document: its length.
const LENGTH_BYTES: usize = 4;
/// The shortest BSON document, in bytes.
const BSON_BYTES_MIN: usize = 5;

impl File {
    /// A file that is not open yet.
    pub const fn new(settings: FileSettings) -> Self {
        Self { settings, reader: None, open: None, at: 0, appended_ms: 0, one: Vec::new() }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{} at byte {}: {reason}", self.settings.path.display(), self.at))
    }

    /// Reads the next event into the buffer, and moves on.
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
            return Err(format!("here should be a BSON document, and its length is {length}"));
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
            batch.sift(|_, index| if index == last { Fate::Condemn(cause.clone()) } else { Fate::Keep });
        }
    }
}

/// Skips to the end of a line; gives how many bytes that were.
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

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        let Opened { reader, lane, seen, at, .. } = opened::open(&self.settings.path, lanes, "read")?;
        let partition = Partition::new(Arc::clone(&lane.partition().topic), seen.number());
        (self.reader, self.at) = (Some(reader), at);
        self.open = Some(Open { lane, seen, partition });
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(Open { lane, seen, partition }) = self.open.clone() else { return Ok(Read::End) };
        let limits = intake.limits();
        self.appended_ms = clock::wall_ms();
        let mut batch = intake.batch(&partition);
        let mut ended = Ok(false);
        while batch.taken() < intake.space().events.min(limits.batch_events_max)
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
        let found = batch.taken() > 0;
        if found {
            batch.set_position(seen.position(self.at));
            intake.hand_over(&lane, batch);
        }
        // What stands before a fault goes its way: it is read with it at every start.
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
