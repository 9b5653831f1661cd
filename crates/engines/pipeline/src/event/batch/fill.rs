//! Fills a batch: copies each event of a source once, to the end of the arena.

use super::Batch;
use crate::event::{Clock, Event, Record, Span, headers};
use crate::position::Position;

impl Batch {
    /// Sets the clock that gave the next events their times; [`Clock::Here`] in a new batch.
    pub const fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
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
            clock: self.clock,
            key,
            payload,
            original: payload,
            headers,
            vector: Span::NULL,
            read: None,
        });
        self.events_read += 1;
    }

    /// Sets the position after this batch. The source calls it once the batch is full.
    pub fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// Copies bytes to the end of the arena.
    pub fn keep(&mut self, bytes: &[u8]) -> Span {
        self.written(|arena| arena.extend_from_slice(bytes))
    }

    /// The span of bytes that `write` appends to the arena. `write` must not change existing bytes.
    pub fn written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Span {
        let start = self.arena.len();
        write(&mut self.arena);
        Span::new(start, self.arena.len())
    }

    /// Gives the event at `index` a vector.
    pub fn set_vector(&mut self, index: usize, vector: &[f32]) {
        let start = self.vectors.len();
        self.vectors.extend_from_slice(vector);
        self.events[index].vector = Span::new(start, self.vectors.len());
    }
}

#[cfg(test)]
mod tests {
    use crate::event::batch::testing::batch;
    use crate::event::{Batch, Record};
    use crate::position::Partition;

    #[test]
    fn pushed_records_read_back_unchanged() {
        let batch = batch();
        let event = batch.events()[2];
        assert_eq!((batch.key(&event), batch.payload(&event)), (Some(&b"k"[..]), Some(&b"ccc"[..])));
        assert_eq!(batch.headers(&event).collect::<Vec<_>>(), [("h", Some(&b"c"[..]))]);
        assert_eq!(batch.bytes(), 4 * (1 + 3 + 2 + 1 + 4 + 1));
        assert_eq!(event.bytes(), 1 + 3 + 2 + 1 + 4 + 1);
    }

    #[test]
    fn a_tombstone_differs_from_an_empty_payload() {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record::default());
        batch.push(Record { payload: Some(b""), ..Record::default() });
        let payloads: Vec<_> = batch.events().iter().map(|event| batch.payload(event)).collect();
        assert_eq!(payloads, [None, Some(&b""[..])]);
    }
}
