//! Holds a batch: events of one partition that move together, and their shared memory.

mod fate;
mod fill;
mod originals;
mod progress;
mod split;

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

pub use fate::Fate;

use super::{Clock, Event, Headers, Rejected};
use crate::flow::{Assignment, Limits, Ticket};
use crate::position::{Partition, Position};
use originals::Original;
use progress::Progress;

/// Events of one partition, in order, and their shared memory.
///
/// A batch is moved, never copied. Its arena only grows: a payload that a transform replaces stays readable for the dead
/// letters until the batch is done.
#[derive(Debug)]
pub struct Batch {
    pub(crate) ticket: Option<Ticket>,
    partition: Partition,
    position: Position,
    /// The clock of the next events.
    clock: Clock,
    events: Vec<Event>,
    arena: Vec<u8>,
    vectors: Vec<f32>,
    rejected: Vec<Rejected>,
    as_read: Vec<Original>,
    events_read: usize,
    progress: Progress,
}

impl Batch {
    /// An empty batch that belongs to no pipeline: for tests, and for sinks of dead letters.
    pub fn new(partition: Partition) -> Self {
        Self {
            ticket: None,
            partition,
            position: Position::default(),
            clock: Clock::default(),
            events: Vec::new(),
            arena: Vec::new(),
            vectors: Vec::new(),
            rejected: Vec::new(),
            as_read: Vec::new(),
            events_read: 0,
            progress: Progress::default(),
        }
    }

    /// Empties the batch for another partition and keeps its memory.
    pub(crate) fn reuse(&mut self, partition: Partition) {
        self.ticket = None;
        self.partition = partition;
        self.position = Position::default();
        self.clock = Clock::default();
        self.events.clear();
        self.arena.clear();
        self.vectors.clear();
        self.rejected.clear();
        self.as_read.clear();
        self.events_read = 0;
        self.progress = Progress::default();
    }

    /// Gives the batch its ticket and notes when it was read.
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Instant) {
        self.ticket = Some(ticket);
        self.progress.read_at = now;
    }

    /// The partition of its events.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The partition of its position: that of its events, unless they are replayed dead letters.
    pub fn position_partition(&self) -> &Partition {
        self.assignment().map_or(&self.partition, |assignment| assignment.partition())
    }

    /// The position at which the source resumes after this batch.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// The epoch in which this process holds the partition, which fences off other processes. Zero if the position store has
    /// no epochs.
    pub fn epoch(&self) -> u64 {
        self.ticket.as_ref().map_or(0, Ticket::epoch)
    }

    /// The number of the batch in its assignment.
    pub fn sequence(&self) -> u64 {
        self.ticket.as_ref().map_or(0, Ticket::sequence)
    }

    /// The events that are neither dropped nor rejected.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The same events, mutable. Spans must lie in this batch's memory. Use [`Batch::replace`] to change more than payload and
    /// vector.
    pub fn events_mut(&mut self) -> &mut [Event] {
        &mut self.events
    }

    /// The memory of keys, payloads and headers.
    pub fn arena(&self) -> &[u8] {
        &self.arena
    }

    /// The number of events that the source put into the batch.
    pub const fn events_read(&self) -> usize {
        self.events_read
    }

    /// Bytes of keys, payloads, headers and vectors, as read and as transformed.
    pub const fn bytes(&self) -> usize {
        self.arena.len() + self.vectors.len() * size_of::<f32>()
    }

    /// The key of an event of this batch.
    pub fn key(&self, event: &Event) -> Option<&[u8]> {
        event.key.of(&self.arena)
    }

    /// The payload of an event of this batch.
    pub fn payload(&self, event: &Event) -> Option<&[u8]> {
        event.payload.of(&self.arena)
    }

    /// The payload of an event as read.
    pub fn original(&self, event: &Event) -> Option<&[u8]> {
        event.original.of(&self.arena)
    }

    /// The headers of an event of this batch.
    pub fn headers(&self, event: &Event) -> Headers<'_> {
        Headers::new(event.headers.of(&self.arena).unwrap_or_default())
    }

    /// The vector of an event, if a transform made one.
    pub fn vector(&self, event: &Event) -> Option<&[f32]> {
        event.vector.of(&self.vectors)
    }

    /// The assignment of the batch.
    pub(crate) fn assignment(&self) -> Option<&Arc<Assignment>> {
        self.ticket.as_ref().map(Ticket::assignment)
    }

    /// Whether its partition was revoked since it was read: its next owner reads the batch again.
    pub fn is_revoked(&self) -> bool {
        self.assignment().is_some_and(|assignment| assignment.is_revoked())
    }

    /// The sort key among its worker's batches: assignment number, batch number, first offset.
    pub(crate) fn order_key(&self) -> (usize, u64, u64) {
        let assignment = self.assignment().map_or(0, |assignment| assignment.number());
        (assignment, self.sequence(), self.events.first().map_or(0, |event| event.offset))
    }

    /// Bytes of memory that the batch keeps allocated.
    pub(crate) fn memory(&self) -> usize {
        self.arena.capacity()
            + self.events.capacity() * size_of::<Event>()
            + self.vectors.capacity() * size_of::<f32>()
            + self.as_read.capacity() * size_of::<Original>()
    }

    /// The largest allowed event, in bytes; the default while the batch belongs to no pipeline.
    pub(crate) fn event_bytes_max(&self) -> usize {
        self.ticket.as_ref().map_or(Limits::default(), Ticket::limits).event_bytes_max
    }

    /// Lets the position move past this batch before it is written, for at-most-once.
    pub(crate) fn settle_early(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.settle_early();
        }
    }

    /// Settles the batch: every event is written, dropped, or a durable dead letter.
    pub(crate) fn settle(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.settle();
        }
    }

    /// Counts the bytes by which the batch is larger than `before`, its earlier size, as in flight.
    pub(crate) fn note_growth(&self, before: usize) {
        if let Some(ticket) = &self.ticket {
            ticket.grow(self.bytes().saturating_sub(before));
        }
    }
}

/// A batch of four events, for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::Batch;
    use crate::event::Record;
    use crate::position::Partition;

    pub(crate) fn batch() -> Batch {
        let mut batch = Batch::new(Partition::new("t", 0));
        for offset in 0..4_u64 {
            let payload = [b'a' + offset as u8; 3];
            let record = Record { offset, appended_ms: 7, key: Some(b"k"), payload: Some(&payload) };
            batch.push_with(record, [("h", Some(&payload[..1]))]);
        }
        batch
    }
}
