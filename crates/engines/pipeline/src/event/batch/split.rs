//! Splits a batch in half, to find the event that a sink refuses.

use super::Batch;
use super::originals::Original;
use crate::event::{Event, Span};
use crate::flow::Ticket;

impl Batch {
    /// Moves the second half of the events to a new batch. The original is settled when both halves are. Copies only the memory
    /// of these events, since repeated splits must not multiply the memory in flight.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let mut half = Self::new(self.partition.clone());
        half.position = self.position.clone();
        half.progress = self.progress;
        let events = self.events.split_off(self.events.len() / 2);
        half.events_read = events.len();
        self.events_read -= half.events_read;
        for event in events {
            let event = half.copy(self, event);
            half.events.push(event);
        }
        half.ticket = self.ticket.as_ref().map(Ticket::split);
        if let Some(ticket) = &half.ticket {
            ticket.grow(half.bytes());
        }
        half
    }

    /// Copies an event from another batch. Spans within the original payload, such as the parts of an envelope, stay
    /// within its copy.
    fn copy(&mut self, from: &Self, event: Event) -> Event {
        let original = event.original.of(&from.arena).map_or(Span::NULL, |bytes| self.keep(bytes));
        let mut part = |span: Span| match (span.offset_in(event.original), span.of(&from.arena)) {
            (_, None) => Span::NULL,
            (Some(at), Some(bytes)) => original.within(at, at + bytes.len()),
            (None, Some(bytes)) => self.keep(bytes),
        };
        let (key, payload, headers) = (part(event.key), part(event.payload), part(event.headers));
        let saved_original = from.saved_original(&event);
        let saved_original =
            saved_original.map(|it| Original { key: part(it.key), headers: part(it.headers), ..it });
        let read = saved_original.and_then(|it| self.save_original(it));
        let mut vector = Span::NULL;
        if let Some(numbers) = event.vector.of(&from.vectors) {
            let start = self.vectors.len();
            self.vectors.extend_from_slice(numbers);
            vector = Span::new(start, self.vectors.len());
        }
        Event { key, payload, original, headers, vector, read, ..event }
    }
}

#[cfg(test)]
mod tests {
    use crate::event::batch::testing::batch;
    use crate::event::{Batch, Cause, CauseClass, Fate, Span};

    /// The complete data of one event, for comparison.
    type Contents = (u64, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>, Option<Vec<f32>>);

    fn contents(batch: &Batch) -> Vec<Contents> {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let each = batch.events().iter().map(|event| {
            (
                event.offset,
                owned(batch.key(event)),
                owned(batch.payload(event)),
                owned(batch.original(event)),
                batch.headers(event).as_bytes().to_vec(),
                batch.vector(event).map(<[f32]>::to_vec),
            )
        });
        each.collect()
    }

    #[test]
    fn halves_hold_all_events_and_only_the_memory_they_need() {
        let mut whole = batch();
        whole.sift(|_, index| match index {
            0 => Fate::Reject(Cause::new("test", CauseClass::Invalid, "no")),
            _ => Fate::Keep,
        });
        // One payload is a part of the original, one is new, one is missing; one event has a vector.
        let [part, new] = [whole.events()[1].original.within(1, 3), whole.keep(b"something new")];
        for (index, payload) in [Span::NULL, part, new].into_iter().enumerate() {
            whole.events_mut()[index].payload = payload;
        }
        whole.set_vector(2, &[1.0, 2.0]);
        let (before, all_bytes) = (contents(&whole), whole.bytes());
        let half = whole.split_off_half();
        assert_eq!([contents(&whole), contents(&half)].concat(), before);
        assert_eq!(
            (whole.events_read(), whole.rejected().len(), half.events_read(), half.filtered()),
            (2, 1, 2, 0)
        );
        assert_eq!(half.bytes(), 2 * (1 + 3 + 8) + 13 + 8, "{all_bytes} in all");
        let mut smaller = half;
        let least = smaller.split_off_half();
        assert_eq!([contents(&smaller), contents(&least)].concat(), before[1..]);
        assert_eq!(least.bytes(), (1 + 3 + 8) + 13 + 8);
    }
}
