//! Events of one partition that move together, and the memory they share.

use std::sync::Arc;

use plimsoll_measure::clock::Instant;

use super::cause::{Cause, Condemned};
use super::headers::{self, Headers};
use super::span::Span;
use crate::flow::{Lane, Ticket};
use crate::place::{Partition, Position};

/// One event of a batch: where it stands, and where its parts lie in the batch's memory.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its place in its partition: with the partition it is the event's identity.
    pub offset: u64,
    /// When the source's system took it, in milliseconds since 1970 UTC: where delivery latency begins.
    pub appended_ms: u64,
    /// Its key, if it has one.
    pub key: Span,
    /// Its payload as transforms left it; null is a tombstone.
    pub payload: Span,
    /// Its payload as it was read: what goes to the dead letters.
    pub original: Span,
    /// Its headers, encoded ([`Headers`]).
    pub headers: Span,
    /// Its vector in the batch's vectors, if a transform made one.
    pub vector: Span,
}

/// What a source gives for one event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Its place in its partition.
    pub offset: u64,
    /// When the source's system took it, in milliseconds since 1970 UTC.
    pub appended_ms: u64,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its payload; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Keep,
    /// It ends here, as was meant: a filter.
    Drop,
    /// It goes to the dead letters.
    Condemn(Cause),
}

/// Events of one partition, in order, and the memory they share.
///
/// A batch is moved, never copied. Its arena only grows: what a transform replaces stays readable for the dead letters
/// until the batch is done. To the bytes in flight counts what was read.
#[derive(Debug)]
pub struct Batch {
    pub(crate) ticket: Option<Ticket>,
    partition: Partition,
    position: Position,
    events: Vec<Event>,
    arena: Vec<u8>,
    vectors: Vec<f32>,
    condemned: Vec<Condemned>,
    taken: usize,
    read_at: Instant,
    submitted_at: Instant,
    failed_at: Option<Instant>,
    submitted: bool,
    attempts: u32,
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
            taken: 0,
            read_at: Instant::default(),
            submitted_at: Instant::default(),
            failed_at: None,
            submitted: false,
            attempts: 0,
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
        self.taken = 0;
        self.failed_at = None;
        self.submitted = false;
        self.attempts = 0;
    }

    /// Sets it on its way.
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Instant) {
        self.ticket = Some(ticket);
        self.read_at = now;
    }

    /// When it was handed over by the source.
    pub const fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Appends an event without headers.
    pub fn push(&mut self, record: Record<'_>) {
        self.push_with(record, std::iter::empty());
    }

    /// Appends an event with headers, each a name and a value or none.
    pub fn push_with<'h>(
        &mut self,
        record: Record<'_>,
        named: impl IntoIterator<Item = (&'h str, Option<&'h [u8]>)>,
    ) {
        let key = record.key.map_or(Span::NULL, |key| self.keep(key));
        let payload = record.payload.map_or(Span::NULL, |payload| self.keep(payload));
        let headers = self.written(|arena| {
            named.into_iter().for_each(|(name, value)| headers::append(arena, name, value));
        });
        self.add((record.offset, record.appended_ms), key, payload, headers);
    }

    /// Appends an event whose payload `write` writes to the end of the arena.
    pub fn push_written(
        &mut self,
        offset: u64,
        appended_ms: u64,
        key: Option<&[u8]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let key = key.map_or(Span::NULL, |key| self.keep(key));
        let payload = self.written(write);
        self.add((offset, appended_ms), key, payload, Span::new(0, 0));
    }

    fn add(&mut self, (offset, appended_ms): (u64, u64), key: Span, payload: Span, headers: Span) {
        self.events.push(Event {
            offset,
            appended_ms,
            key,
            payload,
            original: payload,
            headers,
            vector: Span::NULL,
        });
        self.taken += 1;
    }

    /// Where the source goes on after this batch; the source says it once the batch is full.
    pub fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// Copies bytes to the end of the arena.
    pub fn keep(&mut self, bytes: &[u8]) -> Span {
        self.written(|arena| arena.extend_from_slice(bytes))
    }

    /// What `write` appends to the arena. It must not touch what is there.
    pub fn written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Span {
        let start = self.arena.len();
        write(&mut self.arena);
        Span::new(start, self.arena.len())
    }

    /// The partition that its events come from.
    pub const fn partition(&self) -> &Partition {
        &self.partition
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

    /// The same, to change: spans must lie in this batch's memory.
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

    /// Gives the event at `index` a vector.
    pub fn set_vector(&mut self, index: usize, vector: &[f32]) {
        let start = self.vectors.len();
        self.vectors.extend_from_slice(vector);
        self.events[index].vector = Span::new(start, self.vectors.len());
    }

    /// Asks `judge` about each event, in order; it may change the event at the index it is given.
    pub fn sift(&mut self, mut judge: impl FnMut(&mut Self, usize) -> Fate) {
        let mut kept = 0;
        for index in 0..self.events.len() {
            match judge(self, index) {
                Fate::Keep => {
                    self.events[kept] = self.events[index];
                    kept += 1;
                }
                Fate::Drop => {}
                Fate::Condemn(cause) => self.condemned.push(Condemned { event: self.events[index], cause }),
            }
        }
        self.events.truncate(kept);
    }

    /// Events that go to the dead letters, and why.
    pub fn condemned(&self) -> &[Condemned] {
        &self.condemned
    }

    /// Whether a sink was ever given this batch.
    pub(crate) const fn was_submitted(&self) -> bool {
        self.submitted
    }

    /// How often a sink was given this batch before.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// When it was last given to a sink.
    pub const fn submitted_at(&self) -> Instant {
        self.submitted_at
    }

    /// Events that a transform left out, as was meant.
    pub(crate) const fn filtered(&self) -> usize {
        self.taken - self.events.len() - self.condemned.len()
    }

    /// The lane it belongs to.
    pub(crate) fn lane(&self) -> Option<&Arc<Lane>> {
        self.ticket.as_ref().map(Ticket::lane)
    }

    /// Whether its partition was given up or lost since it was read.
    pub(crate) fn is_taken_away(&self) -> bool {
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
    }

    pub(crate) const fn note_attempt(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    pub(crate) const fn note_submitted(&mut self, now: Instant) {
        self.submitted = true;
        self.submitted_at = now;
    }

    /// Notes a failure; gives when it failed first.
    pub(crate) fn note_failed(&mut self, now: Instant) -> Instant {
        *self.failed_at.get_or_insert(now)
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

    /// Cuts the second half of its events off into a batch of their own; both together settle what it was.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let mut half = Self::new(self.partition.clone());
        half.ticket = self.ticket.as_ref().map(Ticket::split);
        half.position = self.position.clone();
        (half.read_at, half.failed_at, half.attempts) = (self.read_at, self.failed_at, self.attempts);
        half.submitted = self.submitted;
        half.events = self.events.split_off(self.events.len() / 2);
        half.arena.clone_from(&self.arena);
        half.vectors.clone_from(&self.vectors);
        half.taken = half.events.len();
        self.taken -= half.taken;
        half
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CauseClass;

    fn batch() -> Batch {
        let mut batch = Batch::new(Partition::new("t", 0));
        for offset in 0..4_u64 {
            let payload = [b'a' + offset as u8; 3];
            let record = Record { offset, appended_ms: 7, key: Some(b"k"), payload: Some(&payload) };
            batch.push_with(record, [("h", Some(&payload[..1]))]);
        }
        batch
    }

    #[test]
    fn what_was_read_comes_out_as_it_was() {
        let batch = batch();
        let event = batch.events()[2];
        assert_eq!((batch.key(&event), batch.payload(&event)), (Some(&b"k"[..]), Some(&b"ccc"[..])));
        assert_eq!(batch.headers(&event).collect::<Vec<_>>(), [("h", Some(&b"c"[..]))]);
        assert_eq!(batch.bytes(), 4 * (1 + 3 + 2 + 1 + 4 + 1));
    }

    #[test]
    fn sifting_keeps_the_order_and_every_event_has_one_fate() {
        let mut batch = batch();
        batch.sift(|batch, index| match batch.events()[index].offset {
            0 => Fate::Drop,
            1 => Fate::Condemn(Cause::new("test", CauseClass::Invalid, "no")),
            _ => {
                let span = batch.keep(b"new");
                batch.events_mut()[index].payload = span;
                Fate::Keep
            }
        });
        let offsets: Vec<_> = batch.events().iter().map(|event| event.offset).collect();
        assert_eq!(offsets, [2, 3]);
        assert_eq!(batch.payload(&batch.events()[0]), Some(&b"new"[..]));
        assert_eq!(batch.original(&batch.events()[0]), Some(&b"ccc"[..]));
        assert_eq!(batch.condemned().len(), 1);
        assert_eq!(batch.original(&batch.condemned()[0].event), Some(&b"bbb"[..]));
        assert_eq!(batch.taken(), 4);
    }

    #[test]
    fn a_tombstone_has_no_payload_and_an_empty_payload_is_one() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        batch.push(Record { payload: Some(b""), ..Record::default() });
        let payloads: Vec<_> = batch.events().iter().map(|event| batch.payload(event)).collect();
        assert_eq!(payloads, [None, Some(&b""[..])]);
    }
}
