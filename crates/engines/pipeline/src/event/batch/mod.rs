//! Events of one partition that move together, and the memory they share.

mod as_read;
mod fate;
mod fill;
mod halves;
mod journey;

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

pub use fate::Fate;

use super::{Condemned, Event, Headers};
use crate::flow::{Lane, Limits, Ticket};
use crate::place::{Partition, Position};
use as_read::AsRead;
use journey::Journey;

/// Events of one partition, in order, and the memory they share.
///
/// A batch is moved, never copied. Its arena only grows: what a transform replaces stays readable for the dead letters
/// until the batch is done.
#[derive(Debug)]
pub struct Batch {
    pub(crate) ticket: Option<Ticket>,
    partition: Partition,
    position: Position,
    events: Vec<Event>,
    arena: Vec<u8>,
    vectors: Vec<f32>,
    condemned: Vec<Condemned>,
    as_read: Vec<AsRead>,
    taken: usize,
    journey: Journey,
}

impl Batch {
    /// An empty batch of a partition that belongs to no pipeline: for tests, and for sinks of dead letters.
    pub fn new(partition: Partition) -> Self {
        Self {
            ticket: None,
            partition,
            position: Position::default(),
            events: Vec::new(),
            arena: Vec::new(),
            vectors: Vec::new(),
            condemned: Vec::new(),
            as_read: Vec::new(),
            taken: 0,
            journey: Journey::default(),
        }
    }

    /// Makes it empty for another partition; its memory is kept.
    pub(crate) fn reuse(&mut self, partition: Partition) {
        self.ticket = None;
        self.partition = partition;
        self.position = Position::default();
        self.events.clear();
        self.arena.clear();
        self.vectors.clear();
        self.condemned.clear();
        self.as_read.clear();
        self.taken = 0;
        self.journey = Journey::default();
    }

    /// Sets it on its way.
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Instant) {
        self.ticket = Some(ticket);
        self.journey.read_at = now;
    }

    /// The partition that its events come from.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The partition that its position belongs to: that of its events, unless they are replayed from elsewhere.
    pub fn kept_in(&self) -> &Partition {
        self.lane().map_or(&self.partition, |lane| lane.partition())
    }

    /// Where the source goes on after this batch.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// The epoch in which this process holds the partition, where a position store gives one: a fence against others.
    pub fn epoch(&self) -> u64 {
        self.ticket.as_ref().map_or(0, Ticket::epoch)
    }

    /// The number of the batch in its partition, counted from the assignment of the partition.
    pub fn sequence(&self) -> u64 {
        self.ticket.as_ref().map_or(0, Ticket::sequence)
    }

    /// The events that are still on their way.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The same, to change: spans must lie in this batch's memory. Who changes more than payload and vector says
    /// [`Batch::replace`].
    pub fn events_mut(&mut self) -> &mut [Event] {
        &mut self.events
    }

    /// The memory of keys, payloads and headers.
    pub fn arena(&self) -> &[u8] {
        &self.arena
    }

    /// How many events it was read with.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// Bytes of keys, payloads and headers, as read and as transformed.
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

    /// The payload of an event as it was read.
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

    /// The lane it belongs to.
    pub(crate) fn lane(&self) -> Option<&Arc<Lane>> {
        self.ticket.as_ref().map(Ticket::lane)
    }

    /// Whether its partition was given up or lost since it was read: whoever holds it now reads the batch again.
    pub fn is_taken_away(&self) -> bool {
        self.lane().is_some_and(|lane| lane.is_lost())
    }

    /// Its place in the order of its worker's batches: its lane, its number there, its first event.
    pub(crate) fn place(&self) -> (usize, u64, u64) {
        let lane = self.lane().map_or(0, |lane| lane.number());
        (lane, self.sequence(), self.events.first().map_or(0, |event| event.offset))
    }

    /// Bytes of memory that it keeps.
    pub(crate) fn memory(&self) -> usize {
        self.arena.capacity()
            + self.events.capacity() * size_of::<Event>()
            + self.vectors.capacity() * size_of::<f32>()
            + self.as_read.capacity() * size_of::<AsRead>()
    }

    /// Bytes of an event at most in its pipeline: as many as anywhere else while it belongs to none.
    pub(crate) fn event_bytes_max(&self) -> usize {
        self.ticket.as_ref().map_or(Limits::default(), Ticket::limits).event_bytes_max
    }

    /// Lets its lane go on as if it were settled, which it may never be: at most once.
    pub(crate) fn forgo(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.forgo();
        }
    }

    /// Says that every one of its events is where it belongs.
    pub(crate) fn settle(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.settle();
        }
    }

    /// Counts what it grew by since it had `before` bytes as in flight.
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
    use crate::place::Partition;

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
