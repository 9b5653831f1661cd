//! Provides a source of numbered events whose partition is revoked, or reassigned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_pipeline::{
    Assignment, Assignments, Intake, Last, Partition, Position, Read, Record, Replay, Source, SourceError,
};

use crate::bench::payload;

/// Events in a batch.
const BATCH: u64 = 20;

/// The change of the partition.
pub enum Change {
    /// The partition is reassigned after `batches` batches, `times` times.
    Again { batches: u32, times: u32 },
    /// The partition is lost once this is set, and the source ends.
    Lost(Arc<AtomicBool>),
}

/// The numbers from 0 up to `end`, exclusive, in partition `t/0`.
pub struct RevokedSource {
    end: u64,
    change: Change,
    since: u32,
    open: Option<(Arc<Assignments>, Arc<Assignment>)>,
    next: u64,
}

impl RevokedSource {
    pub fn new(end: u64, change: Change) -> Self {
        Self { end, change, since: 0, open: None, next: 0 }
    }

    /// Whether the partition is assigned, possibly in another assignment than before.
    fn is_there(&mut self, assignments: &Arc<Assignments>) -> Result<bool, SourceError> {
        match &mut self.change {
            Change::Lost(lost) if lost.load(Ordering::Relaxed) => {
                assignments.lose(&[Partition::new("t", 0)]);
                Ok(false)
            }
            Change::Again { batches, times } if self.since >= *batches && *times > 0 => {
                (*times, self.since) = (*times - 1, 0);
                self.open(assignments)?;
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

impl Source for RevokedSource {
    fn replay(&self) -> Replay {
        Replay::FromStore
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        let (assignment, from) = assignments.open(Partition::new("t", 0))?;
        self.next = from.map_or(0, |position| position.next);
        self.open = Some((Arc::clone(assignments), assignment));
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some((assignments, _)) = self.open.clone() else { return Ok(Read::End) };
        if !self.is_there(&assignments)? {
            return Ok(Read::End);
        }
        let Some((_, assignment)) = &self.open else { return Ok(Read::End) };
        let end = self.end.min(self.next + BATCH.min(intake.space().events as u64));
        if end == self.next {
            return Ok(if self.next == self.end { Read::End } else { Read::Idle });
        }
        let mut batch = intake.batch(assignment.partition());
        for offset in self.next..end {
            batch.push(Record { offset, appended_ms: 1, key: None, payload: Some(&payload(offset)) });
        }
        batch.set_position(Position::at(end));
        intake.hand_over(assignment, batch);
        (self.next, self.since) = (end, self.since + 1);
        Ok(Read::Some)
    }

    fn commit(&mut self, _: &[(Partition, Position)], _: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
