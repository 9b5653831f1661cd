//! Groups dead letters into batches: one batch for each sequence of letters from one partition.

use std::sync::Arc;

use super::letter::{DeadLetter, NotADeadLetter};
use crate::event::{Batch, Cause, CauseClass, Clock, Event, Fate, Record};
use crate::flow::{Assignment, Space};
use crate::port::source::Intake;
use crate::position::{Partition, Position};

/// Groups the letters of one read into batches.
pub struct LetterBatcher<'a, 'i> {
    intake: &'a mut Intake<'i>,
    room: Space,
    events: usize,
    bytes: usize,
    open: Option<Open>,
}

/// The batch being filled.
struct Open {
    assignment: Arc<Assignment>,
    batch: Batch,
    /// Rejected events, by index.
    rejected: Vec<(usize, Cause)>,
}

impl<'a, 'i> LetterBatcher<'a, 'i> {
    /// A batcher without letters, for the space of the read.
    pub fn new(intake: &'a mut Intake<'i>) -> Self {
        let room = intake.space();
        Self { intake, room, events: 0, bytes: 0, open: None }
    }

    /// Whether there is space for another letter.
    pub const fn has_room(&self) -> bool {
        self.events < self.room.events && self.bytes < self.room.bytes
    }

    /// Adds the letter that ends at position `behind` of its store. Returns the partition and offset of its event.
    ///
    /// # Errors
    ///
    /// If it is not a dead letter.
    pub fn take(
        &mut self,
        assignment: &Arc<Assignment>,
        letter: &DeadLetter<'_>,
        behind: Position,
    ) -> Result<(Partition, u64), NotADeadLetter> {
        let (origin, own) = letter.open()?;
        let full = self.intake.limits().batch_events_max;
        let event_bytes_max = self.intake.limits().event_bytes_max;
        let fits = |open: &Open| {
            let from = open.batch.partition();
            let same = (&*from.topic, from.index) == (origin.topic, origin.partition);
            same && Arc::ptr_eq(&open.assignment, assignment) && open.batch.events_read() < full
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.hand_over();
        }
        let intake = &mut *self.intake;
        let open = self.open.get_or_insert_with(|| {
            let from = Partition::new(origin.topic, origin.partition);
            Open { assignment: Arc::clone(assignment), batch: intake.batch(&from), rejected: Vec::new() }
        });
        let before = open.batch.bytes();
        let DeadLetter { appended_ms, key, payload, .. } = *letter;
        open.batch.set_clock(Clock::Producer);
        open.batch.push_with(Record { offset: origin.offset, appended_ms, key, payload }, own);
        open.batch.set_position(behind);
        let last = open.batch.events().len() - 1;
        let cause = origin.incomplete.or_else(|| oversize(&open.batch.events()[last], event_bytes_max));
        open.rejected.extend(cause.map(|cause| (last, cause)));
        self.bytes += open.batch.bytes() - before;
        self.events += 1;
        Ok((open.batch.partition().clone(), origin.offset))
    }

    /// Hands the last batch over. Returns the number of letters taken.
    pub fn finish(mut self) -> usize {
        self.hand_over();
        self.events
    }

    fn hand_over(&mut self) {
        let Some(Open { assignment, mut batch, rejected }) = self.open.take() else { return };
        if !rejected.is_empty() {
            batch.sift(|_, index| {
                let found = rejected.iter().find(|(at, _)| *at == index);
                found.map_or(Fate::Keep, |(_, cause)| Fate::Reject(cause.clone()))
            });
        }
        self.intake.hand_over(&assignment, batch);
    }
}

/// Letters read before an invalid one are handed over. Otherwise they would never be written, since every
/// start reads them together with it.
impl Drop for LetterBatcher<'_, '_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Whether an event is too large. Its size is measured as at its source, without the headers of the dead letter.
fn oversize(event: &Event, most: usize) -> Option<Cause> {
    let bytes = event.key.len() + event.payload.len() + event.headers.len();
    let words = || format!("{bytes} bytes are more than {most}");
    (bytes > most).then(|| Cause::new("source", CauseClass::Oversize, words()))
}
