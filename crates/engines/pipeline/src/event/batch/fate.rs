//! Drops and rejects events of a batch.

use super::Batch;
use crate::event::{Cause, Rejected};

/// The decision about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The event stays in the batch.
    Keep,
    /// A filter drops the event.
    Drop,
    /// The event becomes a dead letter.
    Reject(Cause),
}

impl Batch {
    /// Asks `decide` about each event, in order. `decide` may change the event at its index.
    pub fn sift(&mut self, mut decide: impl FnMut(&mut Self, usize) -> Fate) {
        let mut kept = 0;
        for index in 0..self.events.len() {
            match decide(self, index) {
                Fate::Keep => {
                    self.events[kept] = self.events[index];
                    kept += 1;
                }
                Fate::Drop => {}
                Fate::Reject(cause) => self.rejected.push(Rejected { event: self.events[index], cause }),
            }
        }
        self.events.truncate(kept);
    }

    /// Events that become dead letters, with their causes.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The number of events that a transform dropped on purpose.
    pub(crate) const fn filtered(&self) -> usize {
        self.events_read - self.events.len() - self.rejected.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CauseClass;
    use crate::event::batch::testing::batch;

    #[test]
    fn sifting_keeps_the_order_and_every_event_has_one_fate() {
        let mut batch = batch();
        batch.sift(|batch, index| match batch.events()[index].offset {
            0 => Fate::Drop,
            1 => Fate::Reject(Cause::new("test", CauseClass::Invalid, "no")),
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
        assert_eq!(batch.rejected().len(), 1);
        assert_eq!(batch.original(&batch.rejected()[0].event), Some(&b"bbb"[..]));
        assert_eq!((batch.events_read(), batch.filtered()), (4, 1));
    }
}
