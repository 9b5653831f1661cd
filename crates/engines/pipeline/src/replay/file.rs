//! The dead letters of a file, from where they were read to last to where they end now.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::line;
use super::returned::Returned;
use crate::flow::{Lane, Lanes};
use crate::place::{Partition, Position};
use crate::port::source::{Intake, Last, Read, Replay, Source, SourceError};
use crate::source::opened::{self, Opened};
use crate::source::seen::Seen;

/// No line is longer, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Reads the dead letters of a file. What is appended while they are read is for another time.
#[derive(Debug)]
pub struct Letters {
    path: PathBuf,
    /// Letters that may still be read.
    left: u64,
    reader: Option<BufReader<fs::File>>,
    open: Option<(Arc<Lane>, Seen)>,
    at: u64,
    end: u64,
    line: Vec<u8>,
}

impl Letters {
    /// The letters of a file that is not open yet, so many at most.
    pub const fn new(path: PathBuf, limit: u64) -> Self {
        Self { path, left: limit, reader: None, open: None, at: 0, end: 0, line: Vec::new() }
    }

    /// Reads the next line; false at the end, and at a line that is not whole.
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
            return Err(format!("this line is longer than {LINE_BYTES_MAX} bytes: put it aside"));
        }
        Ok(false)
    }

    fn failed(&self, at: u64, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Failed(format!("{} at byte {at}: {reason}", self.path.display()))
    }
}

impl Source for Letters {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, lanes: &Arc<Lanes>) -> Result<(), SourceError> {
        let Opened { reader, lane, seen, at, end } = opened::open(&self.path, lanes, "replayed")?;
        (self.reader, self.open, self.at, self.end) = (Some(reader), Some((lane, seen)), at, end);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some((lane, seen)) = self.open.clone() else { return Ok(Read::End) };
        let mut returned = Returned::new(intake);
        let mut ended = self.left == 0;
        while !ended && returned.has_room() {
            let at = self.at;
            if !self.next().map_err(|reason| self.failed(at, reason))? {
                ended = true;
            } else if !self.line.trim_ascii().is_empty() {
                let line = line::read(&self.line).map_err(|reason| self.failed(at, reason))?;
                let taken = returned.take(&lane, &line.letter(), seen.position(self.at));
                taken.map_err(|error| self.failed(at, format_args!("this {error}")))?;
                self.left -= 1;
                ended = self.left == 0;
            }
        }
        Ok(match (returned.finish(), ended) {
            (0, true) => Read::End,
            (0, false) => Read::Idle,
            _ => Read::Some,
        })
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
