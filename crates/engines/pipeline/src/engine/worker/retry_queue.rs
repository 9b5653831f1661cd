//! Queues the batches that a worker submits next. Failed batches are in the order in which they were read.

use std::collections::VecDeque;

use crate::event::Batch;

/// Batches that a worker submits next. A new batch goes to the end, a failed one to its place in the order of its partition.
#[derive(Default)]
pub(super) struct RetryQueue {
    waiting: VecDeque<Box<Batch>>,
    /// Whether every batch in the sink was submitted after the last failure, so that they are in order.
    in_order: bool,
}

impl RetryQueue {
    /// Whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first batch.
    pub(super) fn first(&self) -> Option<&Batch> {
        self.waiting.front().map(|batch| &**batch)
    }

    /// Takes the first batch.
    pub(super) fn take_first(&mut self) -> Option<Box<Batch>> {
        self.waiting.pop_front()
    }

    /// Appends a new batch.
    pub(super) fn push(&mut self, batch: Box<Batch>) {
        self.waiting.push_back(batch);
    }

    /// Inserts a failed batch in the order of its partition.
    pub(super) fn put_back(&mut self, batch: Box<Batch>) {
        let place = batch.order_key();
        let at = self.waiting.partition_point(|waiting| waiting.order_key() < place);
        self.waiting.insert(at, batch);
        self.in_order = false;
    }

    /// Notes that a batch is submitted while the sink holds `others` other batches.
    pub(super) fn note_submitted(&mut self, others: usize) {
        self.in_order |= others == 0;
    }

    /// Whether submitting the next batch keeps the order while the sink holds `others` batches: a failed
    /// batch waits until the sink holds no later one.
    pub(super) fn keeps_order(&self, others: usize) -> bool {
        self.is_empty() || others == 0 || self.in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    fn batch(offset: u64) -> Box<Batch> {
        let mut batch = Batch::new(Partition::new("t", 0));
        batch.push(Record { offset, ..Record::default() });
        Box::new(batch)
    }

    fn offset(batch: &Batch) -> u64 {
        batch.events()[0].offset
    }

    #[test]
    fn failed_batches_are_retried_in_the_order_of_reading() {
        let mut retries = RetryQueue::default();
        for failed in [3, 1, 2] {
            retries.put_back(batch(failed));
        }
        retries.push(batch(9));
        assert_eq!(retries.first().map(offset), Some(1));
        let order: Vec<_> = std::iter::from_fn(|| retries.take_first()).map(|batch| offset(&batch)).collect();
        assert_eq!(order, [1, 2, 3, 9]);
    }

    #[test]
    fn a_failed_batch_waits_until_the_sink_holds_no_later_one() {
        let mut retries = RetryQueue::default();
        assert!(retries.keeps_order(2), "nothing waits");
        retries.put_back(batch(1));
        retries.put_back(batch(2));
        assert!(!retries.keeps_order(2) && retries.keeps_order(0));
        retries.take_first();
        retries.note_submitted(0);
        assert!(retries.keeps_order(1), "the first is there, and the second follows it");
        retries.put_back(batch(1));
        assert!(!retries.keeps_order(1), "it failed again");
    }
}
