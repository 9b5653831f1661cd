//! Reads the dead letters of a file, from the last position to the end that the file has now.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::batcher::LetterBatcher;
use super::line;
use crate::flow::{Assignment, Assignments};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};
use crate::position::{Partition, Position};
use crate::source::fingerprint::Fingerprint;
use crate::source::resumable_file::{self, ResumableFile};

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Reads the dead letters of a file. Letters appended during the replay are left for the next one.
#[derive(Debug)]
pub struct DeadLetterFile {
    path: PathBuf,
    /// The number of letters that may still be read.
    left: u64,
    reader: Option<BufReader<fs::File>>,
    open: Option<(Arc<Assignment>, Fingerprint)>,
    at: u64,
    end: u64,
    line: Vec<u8>,
}

impl DeadLetterFile {
    /// The first `limit` letters of a file. The file is opened later.
    pub const fn new(path: PathBuf, limit: u64) -> Self {
        Self { path, left: limit, reader: None, open: None, at: 0, end: 0, line: Vec::new() }
    }

    /// Reads the next line. `false` at the end, and at an incomplete line.
    fn next(&mut self) -> Result<bool, String> {
        self.line.clear();
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let most = LINE_BYTES_MAX.min(self.end.saturating_sub(self.at));
        let read = reader.take(most).read_until(b'\n', &mut self.line).map_err(|error| error.to_string())?;
        if self.line.last() == Some(&b'\n') {
            self.at += read as u64;
            return Ok(true);
        }
        if read as u64 == LINE_BYTES_MAX {
            return Err(format!("this line is longer than {LINE_BYTES_MAX} bytes: remove it from the file"));
        }
        Ok(false)
    }

    fn failed(&self, at: u64, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{} at byte {at}: {reason}", self.path.display()))
    }
}

impl Source for DeadLetterFile {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let ResumableFile { reader, assignment, fingerprint, at, end } =
            resumable_file::open(&self.path, assignments, "replayed")?;
        (self.reader, self.open, self.at, self.end) =
            (Some(reader), Some((assignment, fingerprint)), at, end);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some((assignment, fingerprint)) = self.open.clone() else { return Ok(Read::End) };
        let mut batcher = LetterBatcher::new(intake);
        let mut ended = self.left == 0;
        while !ended && batcher.has_room() {
            let at = self.at;
            if !self.next().map_err(|reason| self.failed(at, reason))? {
                ended = true;
            } else if !self.line.trim_ascii().is_empty() {
                let line = line::read(&self.line).map_err(|reason| self.failed(at, reason))?;
                let taken = batcher.take(&assignment, &line.letter(), fingerprint.position(self.at));
                taken.map_err(|error| self.failed(at, format_args!("this {error}")))?;
                self.left -= 1;
                ended = self.left == 0;
            }
        }
        Ok(match (batcher.finish(), ended) {
            (0, true) => Read::End,
            (0, false) => Read::Idle,
            _ => Read::Some,
        })
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
