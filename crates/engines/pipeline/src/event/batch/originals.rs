//! Keeps key, headers and time of an event as read, for its dead letter.

use std::num::NonZeroU32;

use super::Batch;
use crate::event::{Event, Headers, Record, Span};

/// Key, headers and time of an event as read. The event itself keeps its original payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Original {
    pub(super) appended_ms: u64,
    pub(super) key: Span,
    pub(super) headers: Span,
}

impl Batch {
    /// Replaces the event at `index`, and keeps the original for its dead letter.
    ///
    /// A transform that changes only the payload or the vector may use [`Batch::events_mut`]: the event keeps its original
    /// payload.
    pub fn replace(&mut self, index: usize, event: Event) {
        let before = self.events[index];
        let parts = |event: &Event| (event.key, event.headers, event.appended_ms);
        let read = match before.read {
            None if parts(&before) != parts(&event) => {
                let Event { appended_ms, key, headers, .. } = before;
                self.save_original(Original { appended_ms, key, headers })
            }
            read => read,
        };
        self.events[index] = Event { original: before.original, read, ..event };
    }

    /// An event as read, and its headers.
    pub fn as_read(&self, event: &Event) -> (Record<'_>, Headers<'_>) {
        let Event { offset, appended_ms, key, headers, .. } = *event;
        let Original { appended_ms, key, headers } =
            self.saved_original(event).unwrap_or(Original { appended_ms, key, headers });
        let record =
            Record { offset, appended_ms, key: key.of(&self.arena), payload: event.original.of(&self.arena) };
        (record, Headers::new(headers.of(&self.arena).unwrap_or_default()))
    }

    /// The saved original of an event, if a transform replaced it.
    pub(super) fn saved_original(&self, event: &Event) -> Option<Original> {
        event.read.map(|number| self.as_read[number.get() as usize - 1])
    }

    /// Saves an original and returns its number. Numbers start at one.
    pub(super) fn save_original(&mut self, as_read: Original) -> Option<NonZeroU32> {
        self.as_read.push(as_read);
        u32::try_from(self.as_read.len()).ok().and_then(NonZeroU32::new)
    }
}

#[cfg(test)]
mod tests {
    use crate::event::batch::testing::batch;
    use crate::event::{Batch, Event, Span};

    /// The parts of an event as it was read, as text.
    fn parts(batch: &Batch, index: usize) -> String {
        let (record, headers) = batch.as_read(&batch.events()[index]);
        format!("{record:?} {:?}", headers.as_bytes())
    }

    fn replace(batch: &mut Batch, index: usize, key: &[u8]) {
        let (key, payload) = (batch.keep(key), batch.keep(b"new"));
        let event = Event { key, payload, headers: Span::NULL, appended_ms: 99, ..batch.events()[index] };
        batch.replace(index, event);
    }

    #[test]
    fn originals_survive_replacements_and_splits() {
        let mut batch = batch();
        let before: Vec<_> = (0..4).map(|index| parts(&batch, index)).collect();
        replace(&mut batch, 1, b"another");
        replace(&mut batch, 3, b"other");
        replace(&mut batch, 3, b"third");
        let event = batch.events()[3];
        assert_eq!((batch.key(&event), event.appended_ms), (Some(&b"third"[..]), 99));
        assert_eq!(batch.headers(&event).count(), 0);
        assert_eq!((0..4).map(|index| parts(&batch, index)).collect::<Vec<_>>(), before);
        let half = batch.split_off_half();
        assert_eq!([parts(&batch, 0), parts(&batch, 1), parts(&half, 0), parts(&half, 1)].to_vec(), before);
        assert_eq!(half.key(&half.events()[1]), Some(&b"third"[..]));
    }

    #[test]
    fn an_unreplaced_event_saves_no_original() {
        let mut batch = batch();
        let payload = batch.keep(b"new");
        let event = batch.events()[0];
        batch.replace(0, Event { payload, ..event });
        assert!(batch.as_read.is_empty() && batch.events()[0].read.is_none());
    }
}
