//! The batches that a worker submits next: those that failed, in the order of their reading.

use std::collections::VecDeque;

use crate::event::Batch;

/// Batches that a worker submits next. A new one is put behind all others, one that failed where its partition's order wants it.
#[derive(Default)]
pub(super) struct Again {
    waiting: VecDeque<Box<Batch>>,
    /// Whether all that the sink has was submitted in order since the last failure.
    in_order: bool,
}

impl Again {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The batch that comes first.
    pub(super) fn first(&self) -> Option<&Batch> {
        self.waiting.front().map(|batch| &**batch)
    }

    /// Takes the batch that comes first.
    pub(super) fn take_first(&mut self) -> Option<Box<Batch>> {
        self.waiting.pop_front()
    }

    /// Puts a new batch behind all others.
    pub(super) fn push(&mut self, batch: Box<Batch>) {
        self.waiting.push_back(batch);
    }

    /// Puts a batch that failed where its partition's order wants it.
    pub(super) fn put_back(&mut self, batch: Box<Batch>) {
        let place = batch.place();
        let at = self.waiting.partition_point(|waiting| waiting.place() < place);
        self.waiting.insert(at, batch);
        self.in_order = false;
    }

    /// Notes that a batch is submitted while the sink has so many others.
    pub(super) fn note_submitted(&mut self, others: usize) {
        self.in_order |= others == 0;
    }

    /// Whether the next batch may be submitted while the sink has so many others and an order is to be kept: what failed waits
    /// until the sink has nothing of what came after.
    pub(super) fn keeps_order(&self, others: usize) -> bool {
        self.is_empty() || others == 0 || self.in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::place::Partition;

    fn batch(offset: u64) -> Box<Batch> {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record { offset, ..Record::default() });
        Box::new(batch)
    }

    fn offset(batch: &Batch) -> u64 {
        batch.events()[0].offset
    }

    #[test]
    fn what_failed_comes_in_the_order_of_its_reading() {
        let mut again = Again::default();
        for failed in [3, 1, 2] {
            again.put_back(batch(failed));
        }
        again.push(batch(9));
        assert_eq!(again.first().map(offset), Some(1));
        let order: Vec<_> = std::iter::from_fn(|| again.take_first()).map(|batch| offset(&batch)).collect();
        assert_eq!(order, [1, 2, 3, 9]);
    }

    #[test]
    fn what_failed_waits_until_the_sink_has_nothing_of_what_came_after() {
        let mut again = Again::default();
        assert!(again.keeps_order(2), "nothing waits");
        again.put_back(batch(1));
        again.put_back(batch(2));
        assert!(!again.keeps_order(2) && again.keeps_order(0));
        again.take_first();
        again.note_submitted(0);
        assert!(again.keeps_order(1), "the first is there, and the second follows it");
        again.put_back(batch(1));
        assert!(!again.keeps_order(1), "it failed again");
    }
}
