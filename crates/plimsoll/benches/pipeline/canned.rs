//! Provides a source of prepared events: each is copied into its batch, as a real source does.

use std::sync::Arc;

use plimsoll_measure::clock;
use plimsoll_pipeline::{
    Assignment, Assignments, Intake, Last, Partition, Position, Read, Record, Replay, Source, SourceError,
};

/// An event to copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Can {
    /// Its payload.
    pub(crate) payload: Vec<u8>,
    /// The value of its header `signature`.
    pub(crate) signature: Option<String>,
}

/// Returns the prepared events repeatedly, up to a number.
pub(crate) struct Canned {
    cans: Arc<[Can]>,
    events: u64,
    next: u64,
    lane: Option<Arc<Assignment>>,
}

/// The header of a signature.
pub(crate) const SIGNATURE: &str = "signature";

impl Canned {
    pub(crate) fn new(cans: &Arc<[Can]>, events: u64) -> Self {
        Self { cans: Arc::clone(cans), events, next: 0, lane: None }
    }
}

impl Source for Canned {
    fn replay(&self) -> Replay {
        Replay::Nothing
    }

    fn open(&mut self, lanes: &Arc<Assignments>) -> Result<(), SourceError> {
        self.lane = Some(lanes.open(Partition::new("canned", 0))?.0);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(lane) = self.lane.clone() else { return Ok(Read::End) };
        if self.next == self.events {
            return Ok(Read::End);
        }
        let space = intake.space();
        let batch_max = intake.limits().batch_events_max.min(space.events);
        let (mut batch, appended_ms) = (intake.batch(lane.partition()), clock::wall_ms());
        while batch.events_read() < batch_max && batch.bytes() < space.bytes && self.next < self.events {
            let can = &self.cans[(self.next % self.cans.len() as u64) as usize];
            let record =
                Record { offset: self.next, appended_ms, key: Some(b"canned"), payload: Some(&can.payload) };
            batch.push_with(record, can.signature.as_ref().map(|text| (SIGNATURE, Some(text.as_bytes()))));
            self.next += 1;
        }
        if batch.events_read() == 0 {
            return Ok(Read::Idle);
        }
        batch.set_position(Position::at(self.next));
        intake.hand_over(&lane, batch);
        Ok(Read::Some)
    }

    fn commit(&mut self, _: &[(Partition, Position)], _: Last) -> Result<(), SourceError> {
        Ok(())
    }
}
