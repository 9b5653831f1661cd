//! How a batch is cut in half, to find what is wrong in it.

use super::Batch;
use super::as_read::AsRead;
use crate::event::{Event, Span};
use crate::flow::Ticket;

impl Batch {
    /// Cuts the second half of its events off into a batch of their own; both together settle what it was. Only what these
    /// events need is copied: batches are cut again and again, and must not multiply what is in flight.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let mut half = Self::new(self.partition.clone());
        half.position = self.position.clone();
        half.journey = self.journey;
        let events = self.events.split_off(self.events.len() / 2);
        half.taken = events.len();
        self.taken -= half.taken;
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

    /// Copies an event of another batch. Parts of what was read stay parts of it: an envelope's are.
    fn copy(&mut self, from: &Self, event: Event) -> Event {
        let original = event.original.of(&from.arena).map_or(Span::NULL, |bytes| self.keep(bytes));
        let mut part = |span: Span| match (span.offset_in(event.original), span.of(&from.arena)) {
            (_, None) => Span::NULL,
            (Some(at), Some(bytes)) => original.within(at, at + bytes.len()),
            (None, Some(bytes)) => self.keep(bytes),
        };
        let (key, payload, headers) = (part(event.key), part(event.payload), part(event.headers));
        let noted = from.noted(&event);
        let noted = noted.map(|it| AsRead { key: part(it.key), headers: part(it.headers), ..it });
        let read = noted.and_then(|it| self.note_read(it));
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

    /// All that is told of the events of a batch.
    type Told = (u64, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>, Option<Vec<f32>>);

    fn told(batch: &Batch) -> Vec<Told> {
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
    fn halves_hold_what_the_whole_held_and_no_more_memory_than_they_need() {
        let mut whole = batch();
        whole.sift(|_, index| match index {
            0 => Fate::Condemn(Cause::new("test", CauseClass::Invalid, "no")),
            _ => Fate::Keep,
        });
        // One payload is a part of what was read, one is new, one is none; one event has a vector.
        let [part, new] = [whole.events()[1].original.within(1, 3), whole.keep(b"something new")];
        for (index, payload) in [Span::NULL, part, new].into_iter().enumerate() {
            whole.events_mut()[index].payload = payload;
        }
        whole.set_vector(2, &[1.0, 2.0]);
        let (before, all_bytes) = (told(&whole), whole.bytes());
        let half = whole.split_off_half();
        assert_eq!([told(&whole), told(&half)].concat(), before);
        assert_eq!((whole.taken(), whole.condemned().len(), half.taken(), half.filtered()), (2, 1, 2, 0));
        assert_eq!(half.bytes(), 2 * (1 + 3 + 8) + 13 + 8, "{all_bytes} in all");
        let mut smaller = half;
        let least = smaller.split_off_half();
        assert_eq!([told(&smaller), told(&least)].concat(), before[1..]);
        assert_eq!(least.bytes(), (1 + 3 + 8) + 13 + 8);
    }
}
