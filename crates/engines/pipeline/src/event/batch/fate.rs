//! What becomes of each event of a batch on its way.

use super::Batch;
use crate::event::{Cause, Condemned};

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

impl Batch {
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

    /// Events that a transform left out, as was meant.
    pub(crate) const fn filtered(&self) -> usize {
        self.taken - self.events.len() - self.condemned.len()
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
        assert_eq!((batch.taken(), batch.filtered()), (4, 1));
    }
}
