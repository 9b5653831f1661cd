//! One event: what a source gives for it, and what a batch holds of it.

use std::num::NonZeroU32;

use super::Span;

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
    /// Its headers, encoded ([`super::Headers`]).
    pub headers: Span,
    /// Its vector in the batch's vectors, if a transform made one.
    pub vector: Span,
    /// Which of the batch's notes says with what key, headers and time it was read, once a transform replaced them.
    pub(crate) read: Option<NonZeroU32>,
}

impl Event {
    /// Bytes of its key, payload and headers.
    pub const fn bytes(&self) -> usize {
        self.key.len() + self.payload.len() + self.headers.len()
    }
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
