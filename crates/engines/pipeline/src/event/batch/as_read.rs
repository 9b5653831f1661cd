//! What an event was read with, for its dead letter: it must be the event that somebody can read again.

use std::num::NonZeroU32;

use super::Batch;
use crate::event::{Event, Headers, Record, Span};

/// Key, headers and time of an event as they were read. Its payload is in the event.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsRead {
    pub(super) appended_ms: u64,
    pub(super) key: Span,
    pub(super) headers: Span,
}

impl Batch {
    /// Replaces the event at `index`. What it was read with stays for its dead letter.
    ///
    /// A transform that changes no more than the payload or the vector may write them by [`Batch::events_mut`]: of the payload
    /// the event itself remembers the original.
    pub fn replace(&mut self, index: usize, event: Event) {
        let before = self.events[index];
        let told = |event: &Event| (event.key, event.headers, event.appended_ms);
        let read = match before.read {
            None if told(&before) != told(&event) => {
                let Event { appended_ms, key, headers, .. } = before;
                self.note_read(AsRead { appended_ms, key, headers })
            }
            read => read,
        };
        self.events[index] = Event { original: before.original, read, ..event };
    }

    /// An event as it was read, and its headers.
    pub fn as_read(&self, event: &Event) -> (Record<'_>, Headers<'_>) {
        let Event { offset, appended_ms, key, headers, .. } = *event;
        let AsRead { appended_ms, key, headers } =
            self.noted(event).unwrap_or(AsRead { appended_ms, key, headers });
        let record =
            Record { offset, appended_ms, key: key.of(&self.arena), payload: event.original.of(&self.arena) };
        (record, Headers::new(headers.of(&self.arena).unwrap_or_default()))
    }

    /// What is noted of an event.
    pub(super) fn noted(&self, event: &Event) -> Option<AsRead> {
        event.read.map(|number| self.as_read[number.get() as usize - 1])
    }

    /// Notes what an event was read with, and numbers the note from one on.
    pub(super) fn note_read(&mut self, as_read: AsRead) -> Option<NonZeroU32> {
        self.as_read.push(as_read);
        u32::try_from(self.as_read.len()).ok().and_then(NonZeroU32::new)
    }
}

#[cfg(test)]
mod tests {
    use crate::event::batch::testing::batch;
    use crate::event::{Batch, Event, Span};

    /// An event as it was read, in words.
    fn told(batch: &Batch, index: usize) -> String {
        let (record, headers) = batch.as_read(&batch.events()[index]);
        format!("{record:?} {:?}", headers.as_bytes())
    }

    fn replace(batch: &mut Batch, index: usize, key: &[u8]) {
        let (key, payload) = (batch.keep(key), batch.keep(b"new"));
        let event = Event { key, payload, headers: Span::NULL, appended_ms: 99, ..batch.events()[index] };
        batch.replace(index, event);
    }

    #[test]
    fn what_an_event_was_read_with_survives_every_replacement_and_every_cut() {
        let mut batch = batch();
        let before: Vec<_> = (0..4).map(|index| told(&batch, index)).collect();
        replace(&mut batch, 1, b"another");
        replace(&mut batch, 3, b"other");
        replace(&mut batch, 3, b"third");
        let event = batch.events()[3];
        assert_eq!((batch.key(&event), event.appended_ms), (Some(&b"third"[..]), 99));
        assert_eq!(batch.headers(&event).count(), 0);
        assert_eq!((0..4).map(|index| told(&batch, index)).collect::<Vec<_>>(), before);
        let half = batch.split_off_half();
        assert_eq!([told(&batch, 0), told(&batch, 1), told(&half, 0), told(&half, 1)].to_vec(), before);
        assert_eq!(half.key(&half.events()[1]), Some(&b"third"[..]));
    }

    #[test]
    fn an_event_that_is_not_replaced_costs_no_note() {
        let mut batch = batch();
        let payload = batch.keep(b"new");
        let event = batch.events()[0];
        batch.replace(0, Event { payload, ..event });
        assert!(batch.as_read.is_empty() && batch.events()[0].read.is_none());
    }
}
