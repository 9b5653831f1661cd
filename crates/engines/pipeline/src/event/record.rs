//! Represents one event, as a source gives it and as a batch holds it.

use std::num::NonZeroU32;

use super::Span;

/// The clock that gave an event its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The clock of this machine, as for files, scans and generated events.
    #[default]
    Here,
    /// The clock of the system that stores the source, as Kafka's `LogAppendTime` and MongoDB's `wallTime`.
    Source,
    /// A time that a program outside chose, as Kafka's `CreateTime`, or the time within an envelope or a dead letter.
    Producer,
}

/// One event of a batch: its offset, and the spans of its parts in the batch's memory.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its offset in its partition. Partition and offset identify the event.
    pub offset: u64,
    /// The time of its origin by its clock, in milliseconds since 1970 UTC: the start of delivery latency.
    pub appended_ms: u64,
    /// The clock of that time.
    pub clock: Clock,
    /// Its key, if it has one.
    pub key: Span,
    /// Its payload after the transforms; null is a tombstone.
    pub payload: Span,
    /// Its payload as read, for the dead letters.
    pub original: Span,
    /// Its headers, encoded ([`super::Headers`]).
    pub headers: Span,
    /// Its vector in the batch's vectors, if a transform made one.
    pub vector: Span,
    /// The number of this event's saved original in the batch, from one; `None` until a transform replaces
    /// key, headers or time.
    pub(crate) read: Option<NonZeroU32>,
}

impl Event {
    /// Bytes of its key, payload and headers.
    pub const fn bytes(&self) -> usize {
        self.key.len() + self.payload.len() + self.headers.len()
    }
}

/// One event as a source gives it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Its offset in its partition.
    pub offset: u64,
    /// The time of its origin by the clock of its batch, in milliseconds since 1970 UTC.
    pub appended_ms: u64,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its payload; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
}
