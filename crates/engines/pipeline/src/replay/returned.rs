//! Letters become batches: one for each run of letters whose events were read from one partition.

use std::sync::Arc;

use super::letter::{Letter, NoLetter};
use crate::event::{Batch, Cause, CauseClass, Event, Fate, Record};
use crate::flow::{Lane, Space};
use crate::place::{Partition, Position};
use crate::port::source::Intake;

/// Gathers letters to batches within one turn of a source.
pub struct Returned<'a, 'i> {
    intake: &'a mut Intake<'i>,
    room: Space,
    events: usize,
    bytes: usize,
    open: Option<Open>,
}

/// A batch that is being filled.
struct Open {
    lane: Arc<Lane>,
    batch: Batch,
    /// Events that cannot go on, by their index.
    condemned: Vec<(usize, Cause)>,
}

impl<'a, 'i> Returned<'a, 'i> {
    /// Nothing yet, with the room that the turn has.
    pub fn new(intake: &'a mut Intake<'i>) -> Self {
        let room = intake.space();
        Self { intake, room, events: 0, bytes: 0, open: None }
    }

    /// Whether another letter may be read.
    pub const fn has_room(&self) -> bool {
        self.events < self.room.events && self.bytes < self.room.bytes
    }

    /// Takes the letter that ends at `behind` in the lane of its own store; gives its event's place.
    ///
    /// # Errors
    ///
    /// If it is no letter.
    pub fn take(
        &mut self,
        lane: &Arc<Lane>,
        letter: &Letter<'_>,
        behind: Position,
    ) -> Result<(Partition, u64), NoLetter> {
        let (origin, own) = letter.open()?;
        let full = self.intake.limits().batch_events_max;
        let event_bytes_max = self.intake.limits().event_bytes_max;
        let fits = |open: &Open| {
            let from = open.batch.partition();
            let same = (&*from.topic, from.index) == (origin.topic, origin.partition);
            same && Arc::ptr_eq(&open.lane, lane) && open.batch.taken() < full
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.hand_over();
        }
        let intake = &mut *self.intake;
        let open = self.open.get_or_insert_with(|| {
            let from = Partition::new(origin.topic, origin.partition);
            Open { lane: Arc::clone(lane), batch: intake.batch(&from), condemned: Vec::new() }
        });
        let before = open.batch.bytes();
        let Letter { appended_ms, key, payload, .. } = *letter;
        open.batch.push_with(Record { offset: origin.offset, appended_ms, key, payload }, own);
        open.batch.set_position(behind);
        let last = open.batch.events().len() - 1;
        let cause = origin.spoiled.or_else(|| oversize(&open.batch.events()[last], event_bytes_max));
        open.condemned.extend(cause.map(|cause| (last, cause)));
        self.bytes += open.batch.bytes() - before;
        self.events += 1;
        Ok((open.batch.partition().clone(), origin.offset))
    }

    /// Hands over what is left; gives how many letters were taken.
    pub fn finish(mut self) -> usize {
        self.hand_over();
        self.events
    }

    fn hand_over(&mut self) {
        let Some(Open { lane, mut batch, condemned }) = self.open.take() else { return };
        if !condemned.is_empty() {
            batch.sift(|_, index| {
                let found = condemned.iter().find(|(at, _)| *at == index);
                found.map_or(Fate::Keep, |(_, cause)| Fate::Condemn(cause.clone()))
            });
        }
        self.intake.hand_over(&lane, batch);
    }
}

/// What was taken before a letter that is none goes its way: it is read with that one at every start.
impl Drop for Returned<'_, '_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Why an event is too large, as the source that read it first says it: the headers of its letter do not count.
fn oversize(event: &Event, most: usize) -> Option<Cause> {
    let bytes = event.key.len() + event.payload.len() + event.headers.len();
    let words = || format!("{bytes} bytes are more than {most}");
    (bytes > most).then(|| Cause::new("source", CauseClass::Oversize, words()))
}
